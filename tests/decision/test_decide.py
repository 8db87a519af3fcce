from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from sglgate.decision import Block, NoisePrior, NoPrior, Rule, decide, sign_flip_p
from sglgate.errors import MisuseError
from sglgate.evidence import Evidence, Verdict

RULE = Rule.at_least(1.0, design_effect=0.05)
ONE_LOOK = Rule.at_least(1.0, design_effect=0.05, looks=(5,), alphas=(0.05,))


def prior(sd, df=24):
    return NoisePrior(variance=sd**2, df=df, recorded_variance=sd**2, noisier_level=0.15, source="recorded")


def test_a_clear_gain_passes_at_an_early_look(noisy):
    decision = decide(RULE, noisy(4, 1.10))
    assert (decision.verdict, decision.n, decision.next_look) == (Verdict.PASS, 4, None)
    assert decision.interval[0] >= 1.0


def test_a_clear_loss_fails(noisy):
    decision = decide(RULE, noisy(4, 0.90))
    assert decision.verdict is Verdict.FAIL
    assert decision.interval[1] < 1.0


def test_a_point_estimate_above_the_threshold_is_not_a_pass(blocks_of):
    decision = decide(RULE, blocks_of([0.05, -0.02, 0.03, -0.03, 0.06, -0.04, 0.05, -0.02]))
    assert decision.ratio > 1.0
    assert decision.verdict is Verdict.INCONCLUSIVE


def test_not_significantly_slower_is_not_a_pass(blocks_of):
    decision = decide(
        Rule.no_slower(0.03, futility=0.0), blocks_of([0.01, -0.08, 0.07, 0.02, -0.05, 0.06, -0.03, 0.05])
    )
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert "at the cap" in decision.reason


@pytest.mark.parametrize(("ratio", "verdict"), [(1.0, Verdict.PASS), (1.01, Verdict.PASS), (1.10, Verdict.FAIL)])
def test_no_slower_allows_the_margin_and_not_ten_percent(noisy, ratio, verdict):
    assert decide(Rule.no_slower(0.03), noisy(8, ratio, sd=0.005)).verdict is verdict


def test_the_interval_is_that_of_the_t_test(noisy):
    blocks = noisy(5, 1.05)
    logs = [block.log_ratio for block in blocks]
    low, high = stats.t.interval(0.90, 4, np.mean(logs), stats.sem(logs))
    assert decide(ONE_LOOK, blocks).interval == pytest.approx((math.exp(low), math.exp(high)))


def test_the_pooled_interval_is_that_of_the_t_test_with_both_degrees_of_freedom(noisy):
    blocks = noisy(5, 1.05)
    logs = [block.log_ratio for block in blocks]
    sd = math.sqrt((4 * np.var(logs, ddof=1) + 24 * 0.03**2) / 28)
    low, high = stats.t.interval(0.90, 28, np.mean(logs), sd / math.sqrt(5))
    assert decide(ONE_LOOK, blocks, prior=prior(0.03)).interval == pytest.approx((math.exp(low), math.exp(high)))


@pytest.mark.parametrize("n", [0, 1])
def test_before_the_first_look_there_is_no_verdict(noisy, n):
    decision = decide(RULE, noisy(n, 3.0))
    assert (decision.verdict, decision.next_look, decision.interval) == (None, 2, None)


def test_between_looks_nothing_is_decided(noisy):
    blocks = noisy(5, 1.02, sd=0.03)
    assert decide(RULE, blocks).looks == decide(RULE, blocks[:4]).looks
    assert decide(RULE, blocks).next_look == 6


def test_a_verdict_stands_whatever_follows(noisy):
    early = noisy(4, 1.10)
    later = [replace(block, candidate=block.candidate * 0.5) for block in noisy(4, 1.0)]
    assert decide(RULE, early + later).verdict is Verdict.PASS
    assert decide(RULE, early + later).n == 4


def test_a_recorded_noise_decides_after_two_blocks(noisy):
    blocks = noisy(2, 1.09)
    assert decide(RULE, blocks).verdict is None
    assert decide(RULE, blocks, prior=prior(0.02)).verdict is Verdict.PASS


def test_a_history_quieter_than_the_run_is_refused_for_good(blocks_of):
    blocks = blocks_of([0.20, 0.02, 0.11, 0.11, 0.11, 0.11, 0.12, 0.10])
    decision = decide(RULE, blocks, prior=prior(0.02))
    assert "history refused at block 2" in decision.pooling
    assert not any(look.pooled for look in decision.looks)
    assert decision.looks == decide(RULE, blocks).looks


def test_a_missing_history_changes_nothing_but_is_named(noisy):
    blocks = noisy(4, 1.03)
    decision = decide(RULE, blocks, prior=NoPrior("3 A/A blocks are too few"))
    assert decision.looks == decide(RULE, blocks).looks
    assert decision.pooling == "3 A/A blocks are too few"


def test_a_hopeless_run_stops_before_the_cap(blocks_of):
    decision = decide(RULE, blocks_of([0.03, -0.03, -0.03, 0.03, 0.03, -0.03]))
    assert (decision.verdict, decision.n) == (Verdict.INCONCLUSIVE, 4)
    assert "hardly" in decision.reason
    assert decide(replace(RULE, futility=0.0), blocks_of([0.03, -0.03, -0.03, 0.03, 0.03, -0.03])).verdict is None


@pytest.mark.parametrize("value", [None, 0.0, -5.0, math.nan, math.inf])
def test_an_unmeasured_candidate_fails_and_an_unmeasured_baseline_is_unfit(noisy, value):
    blocks = noisy(4, 1.5)
    for arm, verdict in (("candidate", Verdict.FAIL), ("baseline", Verdict.UNFIT)):
        broken = [*blocks[:3], replace(blocks[3], **{arm: value})]
        decision = decide(RULE, broken)
        assert decision.verdict is verdict
        assert f"the {arm} of valid block 4 measured" in decision.reason


def test_numbers_without_any_spread_are_not_believed(blocks_of):
    decision = decide(RULE, blocks_of([0.1] * 4))
    assert decision.verdict is Verdict.UNFIT
    assert decide(RULE, blocks_of([0.1] * 4), prior=prior(0.02)).verdict is Verdict.UNFIT


def test_more_blocks_than_the_cap_are_refused(noisy):
    with pytest.raises(MisuseError, match="cap"):
        decide(RULE, noisy(9, 1.0))


def test_blocks_out_of_order_are_refused(noisy):
    with pytest.raises(MisuseError, match="AB AB"):
        decide(RULE, [replace(block, order="AB") for block in noisy(4, 1.1)])


def test_a_run_that_is_cut_short_is_never_green(noisy):
    cut = decide(RULE, noisy(3, 1.05)).cut("the node is needed")
    assert cut.verdict is Verdict.INCONCLUSIVE
    assert "the node is needed" in cut.reason
    final = decide(RULE, noisy(4, 1.10))
    assert final.cut("late") is final


def test_a_final_decision_fills_the_evidence_record(noisy):
    about = dict.fromkeys(("at", "run", "profile", "candidate", "gate", "test", "metric"), "x")
    record = Evidence(suite="eagle3", **about, **decide(RULE, noisy(4, 1.10)).evidence())
    assert Evidence.model_validate_json(record.model_dump_json()) == record
    assert record.detail["declared_looks"] == [2, 4, 6, 8]
    with pytest.raises(ValueError, match="no verdict yet"):
        decide(RULE, noisy(3, 1.10)).evidence()


def test_the_sign_flip_p_is_exact_against_full_enumeration():
    rng = np.random.default_rng(3)
    for n in range(1, 11):
        values = rng.normal(0.5, 1, n)
        signs = np.array(np.meshgrid(*[[1, -1]] * n)).reshape(n, -1).T
        sums = signs @ values
        assert sign_flip_p(values) == pytest.approx((sums >= values.sum() - 1e-12).mean())


def test_the_sign_flip_p_reaches_its_least_and_counts_ties():
    assert sign_flip_p([0.1] * 16) == pytest.approx(2**-16)
    assert sign_flip_p([0.0, 0.0]) == 1.0
    assert sign_flip_p([0.1, -0.1]) == pytest.approx(0.75)


def test_few_blocks_say_that_the_sign_flip_test_cannot_reach_five_percent(noisy):
    decision = decide(RULE, noisy(4, 1.10))
    assert decision.p_sign_flip == decision.p_sign_flip_least == pytest.approx(1 / 16)


def test_numbers_from_numpy_and_integers_are_measurements():
    blocks = [Block(100, np.float32(110 + i), order) for i, order in enumerate(("AB", "BA", "BA", "AB"))]
    assert decide(RULE, blocks).verdict is Verdict.PASS
