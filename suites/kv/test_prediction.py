"""Does the pool come out as the arithmetic says, target and draft, on every rank?"""

from __future__ import annotations

from fixtures.gate import Gate
from fixtures.models.resolve import resolve_model
from sglgate.config import Candidate
from sglgate.evidence import Verdict
from sglgate.kv.checks import predict_from_record
from sglgate.kv.geometry import load_config
from sglgate.launch import Server


def test_predicted(candidate: Candidate, server: Server, gate: Gate) -> None:
    """From the model's geometry and the memory that the log states; what the arithmetic does not cover is not green."""
    gate.show_log(server.log)
    draft = candidate.arguments.get("speculative-draft-model-path")
    draft_config = load_config(resolve_model(str(draft))) if draft is not None else None
    version = server.stack.sglang
    checks = predict_from_record(server.record, load_config(server.model), draft_config, version=version)
    if not checks:
        gate.judge("pools that can be checked", 0, 1, "at_least", "pools")
    for check in checks:
        gate.judge(
            f"tokens of the {check.role}'s pool, rank {check.rank or 'TP0'}",
            check.tokens,
            (check.tokens_min, check.tokens_max),
            "within",
            "tokens",
            verdict={True: None, False: Verdict.FAIL, None: Verdict.INCONCLUSIVE}[check.inside],
            reason=check.why,
            detail={
                "rank": check.rank,
                "role": check.role,
                "tokens_min": check.tokens_min,
                "tokens_max": check.tokens_max,
                "bytes_per_token": check.bytes_per_token_expected,
            },
        )
