"""What must hold for every model, split and memory."""

import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from sglgate.kv.case import prepare
from sglgate.kv.predict import predict
from sglgate.kv.question import Verdict, ask
from sglgate.kv.window import fraction_window

MODELS = {path.stem: json.loads(path.read_text()) for path in (Path(__file__).parent / "models").glob("*.json")}
PLAIN = ["llama-3.1-8b", "qwen3-0.6b", "kimi-k2.5", "deepseek-v3", "gemma-4-26b-a4b"]
STATE = ["qwen3.5-27b", "qwen3.5-397b-a17b", "lfm2-700m"]
VERSIONS = ["0.5.5", "0.5.7", "0.5.9", "0.5.12", "0.5.15", "0.5.18", "0.5.23"]

models = st.sampled_from(PLAIN)
versions = st.sampled_from(VERSIONS)
pages = st.sampled_from([1, 16, 64])
fractions = st.floats(0.05, 0.98)
memories = st.tuples(st.floats(20, 180), st.floats(0.01, 0.99)).map(lambda both: (both[0], both[0] * both[1]))
FEW = settings(max_examples=60, deadline=None)


def question(model, memory, **more):
    pre, avail = memory
    return ask({"model_config": MODELS[model], "pre_gib": pre, "avail_gib": avail, **more})


@FEW
@given(models, versions, pages, memories, fractions, fractions)
def test_more_fraction_never_means_fewer_tokens(model, version, page, memory, one, other):
    low, high = sorted((one, other))
    asked = question(model, memory, sglang_version=version, page_size=page)
    few, many = (predict(asked.model_copy(update={"mem_fraction_static": f})) for f in (low, high))
    assert few.tokens <= many.tokens
    assert few.tokens_min <= many.tokens_min
    assert few.tokens_max <= many.tokens_max


@FEW
@given(st.sampled_from(STATE), versions, memories, fractions, fractions)
def test_a_state_model_loses_at_most_one_slot_of_tokens_to_more_fraction(model, version, memory, one, other):
    low, high = sorted((one, other))
    asked = question(model, memory, sglang_version=version)
    sizing = prepare(asked).sizing
    few, many = (sizing.pool(memory[1] - memory[0] * (1 - f)) for f in (low, high))
    per_slot = sizing.geometry.state.bytes_per_request(1)
    assert few.tokens - many.tokens <= per_slot / sizing.cell.sizing + 1
    assert few.state.slots <= many.state.slots


@FEW
@given(models, versions, pages, memories, fractions)
def test_every_count_is_whole_pages_inside_its_interval(model, version, page, memory, fraction):
    answer = predict(question(model, memory, sglang_version=version, page_size=page, mem_fraction_static=fraction))
    assert answer.tokens_min <= answer.tokens <= answer.tokens_max
    assert [count % page for count in (answer.tokens, answer.tokens_min, answer.tokens_max)] == [0, 0, 0]


@FEW
@given(st.sampled_from([1, 2, 4, 8]), memories)
def test_a_gqa_token_is_split_over_the_ranks(tp, memory):
    whole, part = (
        predict(question("llama-3.1-8b", memory, tp_size=ranks, mem_fraction_static=0.9)) for ranks in (1, tp)
    )
    assert part.bytes_per_token * tp == whole.bytes_per_token


@FEW
@given(st.sampled_from(["kimi-k2.5", "deepseek-v3"]), st.sampled_from([1, 2, 4, 8]), memories)
def test_an_mla_token_is_whole_on_every_rank(model, tp, memory):
    whole, part = (predict(question(model, memory, tp_size=ranks, mem_fraction_static=0.9)) for ranks in (1, tp))
    assert (part.bytes_per_token, part.tokens) == (whole.bytes_per_token, whole.tokens)


@FEW
@given(models, versions, st.floats(20, 180), st.floats(0.02, 0.9), st.floats(0.05, 0.98))
def test_a_negative_rest_is_a_verdict_never_a_negative_pool(model, version, pre, share, fraction):
    answer = predict(question(model, (pre, pre * share), sglang_version=version, mem_fraction_static=fraction))
    if pre * share - pre * (1 - fraction) < -0.05:
        assert answer.verdict is Verdict.EXHAUSTED
        assert (answer.tokens, answer.pool_gib) == (0, 0.0)
        assert answer.implied_fraction is None
    assert answer.tokens >= 0
    assert answer.pool_gib >= 0


@FEW
@given(models, pages, memories, fractions, st.integers(64, 200_000))
def test_a_cap_only_ever_lowers_the_pool(model, page, memory, fraction, cap):
    asked = question(model, memory, sglang_version="0.5.23", page_size=page, mem_fraction_static=fraction)
    free = predict(asked)
    capped = predict(asked.model_copy(update={"max_total_tokens": cap}))
    assert capped.tokens <= min(free.tokens, cap)
    assert capped.tokens > min(free.tokens, cap) - page


@FEW
@given(models, versions, memories, st.integers(1, 32_768))
def test_the_lowest_fraction_of_a_window_holds_the_request_and_one_step_less_may_not(model, version, memory, tokens):
    asked = question(model, memory, sglang_version=version)
    window = fraction_window(asked, tokens, headroom_gib=2.0, steps=4)
    if window.lowest is None:
        assert predict(asked.model_copy(update={"mem_fraction_static": 0.999})).tokens_min < tokens
        return
    at = predict(asked.model_copy(update={"mem_fraction_static": window.lowest}))
    assert at.tokens_min >= tokens
    if window.lowest > 0.001:
        below = predict(asked.model_copy(update={"mem_fraction_static": round(window.lowest - 0.001, 3)}))
        assert below.tokens_min < tokens


@FEW
@given(versions, memories, fractions)
def test_a_draft_never_makes_the_target_pool_larger_from_0_5_7_on(version, memory, fraction):
    asked = question("llama-3.1-8b", memory, sglang_version=version, mem_fraction_static=fraction)
    draft = ask(
        {
            "model_config": MODELS["llama-3.1-8b"],
            "pre_gib": memory[0],
            "avail_gib": memory[1],
            "sglang_version": version,
            "mem_fraction_static": fraction,
            "speculative": {"algorithm": "EAGLE3", "draft_layers": 1},
        }
    )
    plain, drafted = predict(asked), predict(draft)
    if version == "0.5.5":
        assert drafted.tokens >= plain.tokens  # verify and draft tokens come on top of the profiled count
    else:
        assert drafted.tokens <= plain.tokens
