"""The cost model says what the engineers found by hand, and holds its own algebra."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglgate.eagle3.cost_model import (
    AllReduces,
    StepTimes,
    explain,
    implied_accept_length,
    implied_round_ms,
    predict_steps,
)
from sglgate.errors import MisuseError

# The node before and after the all-reduce work: 89.5 tok/s plain; 54.1, then 94 with EAGLE-3; a verify step
# of 30 ms with 122 all-reduces of 200 us. The draft was not timed apart, so the 30 ms stand for the round.
PLAIN_MS = 1000 / 89.5
BEFORE = StepTimes(plain_ms=PLAIN_MS, verify_ms=30.0)
NCCL = AllReduces(per_verify=122, us_each=200.0)
LENGTH = implied_accept_length(54.1, BEFORE.round_ms)

milliseconds = st.floats(0.01, 1000)
lengths = st.floats(1, 16)


def test_on_the_seed_a_round_must_emit_2_7_tokens_and_emits_1_6():
    found = explain(BEFORE, LENGTH, measured_ratio=54.1 / 89.5, all_reduces=NCCL)
    assert found.break_even_accept_length == pytest.approx(2.685, abs=0.001)
    assert found.accept_length == pytest.approx(1.623, abs=0.001)
    assert found.predicted_ratio == pytest.approx(0.604, abs=0.001)
    assert found.measured_over_predicted == pytest.approx(1.0)


def test_on_the_seed_the_all_reduces_are_most_of_the_verify_step_and_may_cost_103_us():
    found = explain(BEFORE, LENGTH, all_reduces=NCCL).all_reduce
    assert found.share_of_verify == pytest.approx(0.813, abs=0.001)
    assert found.max_us == pytest.approx(102.7, abs=0.1)
    assert found.ratio_if_free == pytest.approx(3.24, abs=0.01)
    # 200 us each cannot be what plain decoding pays: a whole step would then be longer than it is.
    assert found.plain_ceiling_us == pytest.approx(91.6, abs=0.1)


def test_on_the_seed_the_words_name_cause_and_remedy():
    text = " ".join(explain(BEFORE, LENGTH, measured_ratio=54.1 / 89.5, all_reduces=NCCL).sentences())
    for finding in (
        "must emit 2.69 tokens",
        "take 11.9 ms less",
        "take 81% of the verify step",
        "at most 103 us",
        "it is the verify step's all-reduces that are slow",
    ):
        assert finding in text


def test_the_rate_after_the_work_is_what_104_us_less_per_all_reduce_give():
    after_ms = implied_round_ms(94.0, LENGTH)
    saved_us = 1000 * (BEFORE.round_ms - after_ms) / 122
    assert saved_us == pytest.approx(104.4, abs=0.1)
    assert 200 - saved_us < explain(BEFORE, LENGTH, all_reduces=NCCL).all_reduce.max_us
    after = explain(StepTimes(PLAIN_MS, after_ms), LENGTH, all_reduces=AllReduces(122, 200 - saved_us))
    assert after.predicted_ratio == pytest.approx(94 / 89.5)
    assert "slack" in after.sentences()[1]


@settings(deadline=None)
@given(milliseconds, milliseconds, milliseconds, lengths, st.floats(0.5, 2))
def test_a_verify_step_of_the_allowed_length_gives_exactly_the_target(plain, verify, draft, length, target):
    found = explain(StepTimes(plain, verify, draft), length, target_ratio=target)
    if found.max_verify_ms > 0.001:
        again = explain(StepTimes(plain, found.max_verify_ms, draft), length, target_ratio=target)
        assert again.predicted_ratio == pytest.approx(target, rel=1e-6)
    else:
        assert found.predicted_ratio < target


@settings(deadline=None)
@given(milliseconds, milliseconds, milliseconds)
def test_the_break_even_length_gives_a_ratio_of_one(plain, verify, draft):
    times = StepTimes(plain, verify, draft)
    if times.break_even_accept_length >= 1:
        assert explain(times, times.break_even_accept_length).predicted_ratio == pytest.approx(1)


@settings(deadline=None)
@given(milliseconds, milliseconds, lengths, st.integers(1, 500), st.floats(0.01, 0.99))
def test_all_reduces_at_their_limit_give_exactly_the_target(plain, verify, length, count, share):
    us = 1000 * verify * share / count
    times = StepTimes(plain, verify)
    found = explain(times, length, all_reduces=AllReduces(count, us))
    changed_ms = verify + count * (found.all_reduce.max_us - us) / 1000
    assert changed_ms == pytest.approx(found.max_verify_ms)
    assert found.all_reduce.ratio_if_free >= found.predicted_ratio


def test_a_budget_below_zero_says_that_the_time_is_elsewhere():
    found = explain(StepTimes(10, 40), 1.2, all_reduces=AllReduces(100, 50))
    assert found.all_reduce.max_us < 0
    assert found.all_reduce.ratio_if_free < 1
    assert "the time is elsewhere" in " ".join(found.sentences())


def test_without_a_time_each_the_model_still_says_how_much_to_save():
    found = explain(BEFORE, LENGTH, all_reduces=AllReduces(122))
    assert found.all_reduce.to_save_us == pytest.approx(97.3, abs=0.1)
    assert found.all_reduce.max_us is None
    assert "must each get 97 us faster" in " ".join(found.sentences())


def test_a_longer_chain_pays_only_while_drafts_are_accepted():
    found = predict_steps((0.8, 0.5, 0.05), plain_ms=10, draft_step_ms=1, verify_ms=11)
    assert [step.accept_length for step in found] == pytest.approx([1.8, 2.3, 2.35])
    assert max(found, key=lambda step: step.ratio).steps == 2


def test_no_acceptance_predicts_a_loss():
    assert all(step.ratio < 1 for step in predict_steps((0.0, 0.0), plain_ms=10, draft_step_ms=1, verify_ms=10))


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (lambda: StepTimes(0, 1), "plain_ms"),
        (lambda: StepTimes(1, -1), "verify_ms"),
        (lambda: StepTimes(1, 1, -0.1), "draft_ms"),
        (lambda: StepTimes(1, float("nan")), "verify_ms"),
        (lambda: AllReduces(0), "per_verify"),
        (lambda: AllReduces(1, 0.0), "us_each"),
        (lambda: explain(BEFORE, 0.9), "accept_length"),
        (lambda: explain(BEFORE, 2, target_ratio=0), "target_ratio"),
        (lambda: explain(BEFORE, 2, measured_ratio=0), "measured_ratio"),
        (lambda: explain(BEFORE, 2, all_reduces=AllReduces(122, 250)), "all_reduces"),
        (lambda: predict_steps((0.5, 0.6), plain_ms=1, draft_step_ms=1, verify_ms=1), "position_rates"),
        (lambda: predict_steps((1.5,), plain_ms=1, draft_step_ms=1, verify_ms=1), "position_rates"),
    ],
)
def test_figures_that_cannot_be_are_misuse(make, key):
    with pytest.raises(MisuseError, match=key):
        make()
