from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from sglgate.decision import AaRecord, NoisePrior, NoPrior, PoolPolicy, pool
from sglgate.errors import MisuseError

NOW = datetime(2026, 8, 7, tzinfo=UTC)
KEY = {"stack": "s1", "profile": "blackwell", "metric": "tok_per_s"}


def history(sessions=4, blocks=4, sd=0.02, seed=1, age_days=1.0, **changes):
    rng = np.random.default_rng(seed)
    return [
        AaRecord(
            at=NOW - timedelta(days=age_days + sessions - s, minutes=-b),
            session=f"run{s}",
            log_ratio=float(sd * rng.standard_normal()),
            **{**KEY, **changes},
        )
        for s in range(sessions)
        for b in range(blocks)
    ]


def refused(records, **rest):
    answer = pool(records, now=NOW, **{**KEY, **rest})
    assert isinstance(answer, NoPrior)
    return answer.reason


def test_a_steady_young_history_of_the_same_stack_is_pooled_with_all_its_blocks():
    records = history()
    prior = pool(records, now=NOW, **KEY)
    assert isinstance(prior, NoisePrior)
    assert prior.df == 16
    assert prior.recorded_variance == pytest.approx(np.mean([r.log_ratio**2 for r in records]))
    assert prior.variance == pytest.approx(1.25 * prior.recorded_variance)
    assert "16 A/A blocks of 4 sessions, 2026-08-02 to 2026-08-05" in prior.source


def test_an_empty_history_is_refused():
    assert "0 A/A blocks from 0 sessions" in refused([])


@pytest.mark.parametrize("key", ["stack", "profile", "metric"])
def test_records_of_another_stack_profile_or_metric_do_not_count(key):
    assert "0 A/A blocks" in refused(history(**{key: "other"}))


def test_records_beyond_the_age_limit_do_not_count_and_are_counted():
    assert "0 A/A blocks from 0 sessions" in refused(history(age_days=31))
    assert "(16 of any age)" in refused(history(age_days=31))


def test_too_few_blocks_or_sessions_are_refused():
    assert "8 A/A blocks from 4" in refused(history(blocks=2))
    assert "16 A/A blocks from 2" in refused(history(sessions=2, blocks=8))


def test_a_record_from_the_future_is_refused():
    assert "future" in refused(history(age_days=-5))


def test_sessions_that_disagree_are_refused():
    moved = [replace(r, log_ratio=r.log_ratio + (0.06 if r.session in ("run0", "run2") else -0.06)) for r in history()]
    assert "sessions differ" in refused(moved)


def test_a_history_whose_noise_changed_is_refused():
    grown = [replace(r, log_ratio=r.log_ratio * (8 if r.session in ("run2", "run3") else 1)) for r in history(blocks=6)]
    assert "not equally noisy" in refused(grown)


def test_a_history_without_spread_is_refused():
    assert "not a measurement" in refused(history(sd=0.0))


def test_an_honest_history_is_seldom_refused():
    kept = sum(isinstance(pool(history(seed=seed), now=NOW, **KEY), NoisePrior) for seed in range(300))
    assert kept >= 285


def test_a_run_as_noisy_as_the_history_belongs_and_a_much_noisier_one_does_not():
    prior = pool(history(), now=NOW, **KEY)
    assert prior.refusal(prior.recorded_variance, 3) is None
    assert prior.refusal(0.1 * prior.recorded_variance, 3) is None
    assert "noisier than the node's history" in prior.refusal(9 * prior.recorded_variance, 3)


def test_the_policy_is_the_callers():
    assert isinstance(pool(history(blocks=2), now=NOW, policy=PoolPolicy(min_blocks=8), **KEY), NoisePrior)


@pytest.mark.parametrize(
    "change",
    [
        {"max_age_days": 0},
        {"min_blocks": 3},
        {"min_sessions": 1},
        {"noisier_level": 0},
        {"unsteady_level": 1},
        {"inflation": 0.9},
    ],
)
def test_a_policy_that_guards_nothing_is_refused(change):
    with pytest.raises(MisuseError, match=f"pool policy: {next(iter(change))}"):
        PoolPolicy(**change)


def test_times_without_a_zone_and_ratios_without_a_value_are_refused():
    with pytest.raises(MisuseError, match="aware datetime"):
        replace(history()[0], at=datetime(2026, 8, 7))  # noqa: DTZ001 - the mistake under test
    with pytest.raises(MisuseError, match="finite"):
        replace(history()[0], log_ratio=float("nan"))
    with pytest.raises(MisuseError, match="aware datetime"):
        pool([], now=datetime(2026, 8, 7), **KEY)  # noqa: DTZ001 - the mistake under test
