"""The predictor against logs that others published: numbers only, with their source."""

import json
from pathlib import Path

import pytest

from sglgate.kv.budget import GIB, minimum_fraction
from sglgate.kv.case import prepare
from sglgate.kv.predict import predict
from sglgate.kv.question import Verdict, ask
from sglgate.kv.sizing import Pool

HERE = Path(__file__).parent
CASES = json.loads((HERE / "public_cases.json").read_text())
BESIDE = {
    "name", "source", "model", "kind", "tokens", "swa_tokens", "k_gib", "v_gib", "kv_gib", "state_slots",
    "conv_gib", "ssm_gib", "draft_k_gib", "draft_v_gib", "minimum",
}  # fmt: skip


def question(case, **more):
    asked = {key: value for key, value in case.items() if key not in BESIDE}
    return ask({"model_config": str(HERE / "models" / f"{case['model']}.json"), **asked, **more})


def of_kind(*kinds):
    return [pytest.param(case, id=case["name"]) for case in CASES if case["kind"] in kinds]


def printed_gib(case):
    if "kv_gib" in case:
        return case["kv_gib"], 0.005
    return case["k_gib"] + case["v_gib"], 0.01


@pytest.mark.parametrize("case", of_kind("interval"))
def test_the_pool_lies_in_its_interval(case):
    answer = predict(question(case))
    assert answer.verdict is Verdict.FITS
    assert answer.tokens_min <= case["tokens"] <= answer.tokens_max
    assert answer.tokens_max - answer.tokens_min < 0.05 * answer.tokens


@pytest.mark.parametrize("case", of_kind("interval", "pool"))
def test_the_printed_size_is_the_row_times_the_rows(case):
    sizing = prepare(question(case)).sizing
    size, half = printed_gib(case)
    held = sizing.pool_gib(Pool(case["tokens"], case.get("swa_tokens")))
    assert held == pytest.approx(size, abs=half + 1e-3)


@pytest.mark.parametrize("case", [c for c in of_kind("pool") if "state_slots" in c.values[0]])
def test_the_printed_state_is_the_slots_and_one(case):
    asked = question(case)
    case_ = prepare(asked)
    state = case_.geometry.state
    wide = 2 if asked.mamba_ssm_dtype == "bfloat16" else state.ssm_bytes
    tp = case_.split.attention_tp
    ssm = len(state.layers) * state.heads // tp * state.head_dim * state.state_size * wide
    conv = state.bytes_per_request(tp) - len(state.layers) * state.heads // tp * state.head_dim * (
        state.state_size * state.ssm_bytes
    )
    slots = case["state_slots"] + 1
    assert ssm * slots / GIB == pytest.approx(case["ssm_gib"], abs=0.0051)
    assert conv * slots / GIB == pytest.approx(case["conv_gib"], abs=0.0051)


@pytest.mark.parametrize("case", of_kind("split"))
def test_slots_and_tokens_come_from_one_budget(case):
    """The fraction is not in these logs, but the budget that pays for the tokens must give the slots as
    well."""
    sizing = prepare(question(case)).sizing
    per_slot = sizing.geometry.state.bytes_per_request(sizing.split.attention_tp)
    kv_bytes = (case["tokens"] + 0.5) * sizing.cell.sizing
    pool = sizing.pool((case["state_slots"] * per_slot + kv_bytes) / GIB)
    assert (pool.tokens, pool.state.slots) == (case["tokens"], case["state_slots"])


def test_the_draft_of_a_hybrid_costs_one_layer():
    case = next(case for case in CASES if "draft_k_gib" in case)
    draft = {"algorithm": "EAGLE", "draft_layers": 1}
    cell = prepare(question(case, speculative=draft)).cell
    assert cell.draft_share * (case["tokens"] + 1) / GIB == pytest.approx(0.66, abs=0.011)


@pytest.mark.parametrize("case", of_kind("minimum"))
def test_the_minimum_fraction_is_what_sglang_printed(case):
    assert minimum_fraction(case["pre_gib"], case["avail_gib"]) == pytest.approx(case["minimum"], abs=1.5e-4)


@pytest.mark.parametrize("case", of_kind("minimum"))
def test_a_family_that_is_not_modelled_is_declined_not_guessed(case):
    answer = predict(question(case, mem_fraction_static=0.88))
    assert answer.verdict is Verdict.DECLINED
    assert answer.tokens is None
    assert "DeepseekV4ForCausalLM" in answer.notes[0]
