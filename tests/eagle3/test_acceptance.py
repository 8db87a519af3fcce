"""Acceptance over requests: the interval, the floors, and a draft that is never accepted."""

from __future__ import annotations

import pytest

from sglgate.eagle3.acceptance import NoAcceptanceError, estimate, judge_pinned
from sglgate.evidence import Verdict
from sglgate.load import RequestResult
from sglgate.load.stats import judge_floor


def request(index, histogram):
    steps = sum(histogram)
    tokens = sum((k + 1) * count for k, count in enumerate(histogram))
    return RequestResult(
        index=index, prompt_id=str(index), kind="chat", warmup=False, steady=True, scheduled_s=0, sent_s=0, ended_s=1,
        ttft_ms=1, tpot_ms=1, e2e_ms=1, prompt_tokens=1, cached_tokens=0, completion_tokens=tokens, verify_steps=steps,
        accept_length=tokens / steps, draft_histogram=tuple(histogram), output_ids=(), text="", failure=None,
        arrival_s=(), arrival_tokens=(),
    )  # fmt: skip


GOOD = [request(n, h) for n, h in enumerate([(4, 3, 2, 11), (5, 3, 3, 9), (4, 4, 2, 10), (6, 2, 2, 10)])]


def test_the_mean_is_weighted_by_verify_steps_and_lies_inside_its_interval():
    found = estimate(GOOD)
    assert found.mean.value == pytest.approx((4 + 5 + 4 + 6 + 2 * 12 + 3 * 9 + 4 * 40) / 80)
    assert found.mean.interval[0] < found.mean.value < found.mean.interval[1]
    assert [p.value for p in found.positions] == pytest.approx([61 / 80, 49 / 80, 40 / 80])
    assert not found.is_dead


def test_a_floor_needs_the_whole_interval():
    mean = estimate(GOOD).mean
    assert judge_floor(mean, mean.interval[0]) is Verdict.PASS
    assert judge_floor(mean, mean.value) is Verdict.INCONCLUSIVE
    assert judge_floor(mean, mean.interval[1] + 0.01) is Verdict.FAIL


def test_more_than_the_pinned_value_is_as_red_as_less():
    mean = estimate(GOOD).mean
    assert judge_pinned(mean, mean.value, 0.01) is Verdict.PASS
    assert judge_pinned(mean, mean.value - 0.2, 0.1) is Verdict.FAIL
    assert judge_pinned(mean, mean.value + 0.2, 0.1) is Verdict.FAIL


@pytest.mark.parametrize("histogram", [(20, 0, 0, 0), (20,), ()])
def test_a_draft_that_is_never_accepted_is_dead_however_little_the_server_counts(histogram):
    # The prefill's token comes on top of one a verify step; SGLang's histogram ends at the longest run that it saw.
    one = {"completion_tokens": 21, "verify_steps": 20, "draft_histogram": histogram}
    found = estimate([request(n, (20,)).model_copy(update=one) for n in range(3)])
    assert found.mean.value == pytest.approx(1.05)
    assert found.first.value == 0
    assert found.is_dead


def test_a_draft_that_works_is_not_dead_where_no_position_is_counted():
    one = {"completion_tokens": 31, "verify_steps": 20, "draft_histogram": ()}
    found = estimate([request(n, (20,)).model_copy(update=one) for n in range(3)])
    assert found.first.value == pytest.approx(0.5)
    assert not found.is_dead


def test_without_verify_steps_there_is_no_acceptance():
    with pytest.raises(NoAcceptanceError, match="0 of 2"):
        estimate([r.model_copy(update={"verify_steps": None}) for r in GOOD[:2]])
