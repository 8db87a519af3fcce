from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sglgate.decision import NoisePrior, Rule, judge_aa, power_at_cap
from sglgate.decision import simulate as sim
from sglgate.errors import MisuseError
from sglgate.evidence import Verdict

RULE = Rule.no_slower(0.03)


def test_a_quiet_machine_is_fit_after_two_blocks(blocks_of):
    fitness = judge_aa(RULE, blocks_of([0.004, -0.003]))
    assert (fitness.verdict, fitness.n, fitness.next_look) == (Verdict.PASS, 2, None)
    assert fitness.power > 0.9


def test_equal_arms_that_differ_by_more_than_half_the_margin_are_unfit(blocks_of):
    fitness = judge_aa(RULE, blocks_of([0.026, 0.024, 0.025, 0.027, 0.025, 0.026]))
    assert fitness.verdict is Verdict.UNFIT
    assert "drift" in fitness.reason
    assert fitness.drift == pytest.approx(0.0258, abs=1e-3)
    assert fitness.drift_limit == pytest.approx(math.sqrt(1.03) - 1)


def test_noise_that_the_cap_cannot_beat_is_unfit(blocks_of):
    fitness = judge_aa(RULE, blocks_of([0.20, -0.22, -0.19, 0.21]))
    assert fitness.verdict is Verdict.UNFIT
    assert "noise" in fitness.reason
    assert fitness.power < 0.1


def test_two_lucky_blocks_are_not_yet_fit(blocks_of):
    fitness = judge_aa(RULE, blocks_of([0.026, -0.024]))
    assert (fitness.verdict, fitness.next_look) == (None, 4)


def test_a_recorded_noise_spares_the_doubt(blocks_of):
    prior = NoisePrior(0.018**2, 24, 0.018**2, 0.15, "recorded")
    assert judge_aa(RULE, blocks_of([0.026, -0.024]), prior=prior).verdict is Verdict.PASS


def test_the_last_look_always_decides(blocks_of):
    rng = np.random.default_rng(2)
    for _ in range(200):
        assert judge_aa(RULE, blocks_of(0.03 * rng.standard_normal(6))).verdict in (
            Verdict.PASS,
            Verdict.UNFIT,
        )


@pytest.mark.parametrize("n", [0, 1, 3])
def test_between_looks_more_blocks_are_asked_for(blocks_of, n):
    fitness = judge_aa(RULE, blocks_of([0.03, -0.03, 0.03][:n]))
    assert (fitness.verdict, fitness.next_look) == (None, 2 if n < 2 else 4)


@pytest.mark.parametrize("value", [None, math.nan, 0.0])
def test_an_unmeasured_arm_is_unfit(blocks_of, value):
    blocks = blocks_of([0.001, -0.002])
    assert judge_aa(RULE, [blocks[0], replace(blocks[1], baseline=value)]).verdict is Verdict.UNFIT


def test_copied_numbers_are_unfit(blocks_of):
    assert judge_aa(RULE, blocks_of([0.0, 0.0])).verdict is Verdict.UNFIT


def test_blocks_out_of_order_and_odd_looks_are_refused(blocks_of):
    with pytest.raises(MisuseError, match="ABBA"):
        judge_aa(RULE, [replace(block, order="AB") for block in blocks_of([0.01, 0.02])])
    with pytest.raises(MisuseError, match="ascending"):
        judge_aa(RULE, [], looks=(4, 2))


@pytest.mark.parametrize("sd", [0.015, 0.02, 0.03])
def test_the_stated_power_is_what_the_rule_reaches(sd):
    """The rule may do better by its earlier looks, and hardly worse by its futile stops."""
    noise = sim.white(np.random.default_rng(4), 20_000, RULE.cap) * sd
    reached = sim.run_many(RULE, noise + RULE.effect_log).pass_rate
    assert power_at_cap(RULE, sd) - 0.01 <= reached <= power_at_cap(RULE, sd) + 0.06


def test_power_falls_with_noise_and_rises_with_a_history():
    assert power_at_cap(RULE, 1e-4) == 1.0
    powers = [power_at_cap(RULE, sd) for sd in (0.005, 0.01, 0.02, 0.04, 0.08)]
    assert powers == sorted(powers, reverse=True)
    assert power_at_cap(RULE, 0.02, prior_df=24) > power_at_cap(RULE, 0.02)
