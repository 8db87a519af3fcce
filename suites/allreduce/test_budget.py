"""Which path serves the real steps of a live server, and what do they pay for it?"""

from __future__ import annotations

import pytest

from fixtures.gate import Gate
from fixtures.session import RUN
from sglgate.allreduce import budget, paths
from sglgate.allreduce.profile import decode_step_ms, profile_decode
from sglgate.config import Candidate
from sglgate.kv.geometry import load_config
from sglgate.launch import Server

STEPS = 4
DEADLINE_S = 180


def test_served_by_the_declared_path(
    candidate: Candidate, server: Server, gate: Gate, pytestconfig: pytest.Config
) -> None:
    """Kernels of the path in a profile of decode steps, on every rank, as many as the model's geometry has."""
    gate.show_log(server.log)
    config = load_config(server.model)
    ranks = int(server.info["tp_size"])

    def generate(tokens: int) -> None:
        server.client.generate("A", max_new_tokens=tokens, deadline_s=DEADLINE_S, ignore_eos=True)

    generate(8)
    step_ms = decode_step_ms(generate)
    folder = pytestconfig.stash[RUN].logs / f"{candidate.name}.profile"
    traces = profile_decode(server.client, generate, folder, steps=STEPS, ranks=ranks, deadline_s=DEADLINE_S)
    kind = "verify" if server.info.get("speculative_algorithm") else "decode"
    budgets = [
        budget.budget(budget.reductions(budget.read_trace(trace)), kind=kind, steps=STEPS, step_ms=step_ms)
        for trace in traces
    ]
    # Only where the layers are known to reduce twice; a verify step also has its draft's reductions.
    is_plain = config.get("architectures") == ["LlamaForCausalLM"] and kind == "decode"
    expected = budget.geometry_count(config["num_hidden_layers"]) if is_plain else None
    found = budget.judge_server(paths.path(candidate.expect.allreduce.path), budgets, expected)
    gate.judge(
        f"all-reduces a {kind} step",
        budgets[0].all_reduces_per_step,
        expected,
        "equal",
        "all-reduces",
        verdict=found.verdict,
        reason=found.reason,
        n=STEPS,
        detail=found.detail,
    )
