from __future__ import annotations

import math

import numpy as np
import pytest

from sglgate.decision import Block, Rule, decide, decide_all, drive, drive_all
from sglgate.decision import simulate as sim
from sglgate.decision.voids import VoidRule
from sglgate.errors import MisuseError
from sglgate.evidence import Verdict

RULE = Rule.no_slower(0.03)
BUCKETS = ("4KiB", "64KiB", "1MiB")
RULES = dict.fromkeys(BUCKETS, RULE)


def measured(noisy, **ratios):
    return {name: noisy(4, ratios.get(name, 0.95), sd=0.01, seed=i) for i, name in enumerate(BUCKETS)}


def test_every_bucket_must_pass(noisy):
    family = decide_all(RULES, measured(noisy))
    assert family.verdict is Verdict.PASS
    assert "3 of 3 buckets PASS" in family.reason


def test_one_slow_bucket_fails_the_family_and_is_named(noisy):
    family = decide_all(RULES, measured(noisy, **{"64KiB": 1.15}))
    assert family.verdict is Verdict.FAIL
    assert "1 of 3 buckets FAIL; 64KiB" in family.reason


def test_one_open_bucket_keeps_the_family_open(noisy):
    family = decide_all(RULES, measured(noisy, **{"64KiB": 1.025}))
    assert (family.verdict, family.next_look) == (None, 6)


def test_a_bucket_left_out_is_not_a_pass(noisy):
    blocks = measured(noisy)
    del blocks["1MiB"]
    with pytest.raises(MisuseError, match="1MiB"):
        decide_all(RULES, blocks)
    with pytest.raises(MisuseError, match="at least one"):
        decide_all({}, {})


def test_an_unfit_bucket_outweighs_everything(noisy):
    blocks = measured(noisy, **{"64KiB": 1.15})
    blocks["1MiB"] = [Block(0.0, 1.0, block.order) for block in blocks["1MiB"]]
    assert decide_all(RULES, blocks).verdict is Verdict.UNFIT


def test_a_bucket_passes_at_its_full_level_and_fails_at_its_share(noisy):
    blocks = noisy(4, 1.0, sd=0.01)
    alone, shared = decide(RULE, blocks), decide(RULE, blocks, fail_share=1 / 20)
    assert shared.interval[0] < alone.interval[0]
    assert shared.interval[1] == alone.interval[1]


def test_twenty_equal_buckets_on_the_border_seldom_fail_by_chance():
    rng, runs = np.random.default_rng(9), 4000
    failed, uncorrected = np.zeros(runs, bool), np.zeros(runs, bool)
    for _ in range(20):
        noise = sim.white(rng, runs, 8)
        failed |= sim.run_many(RULE, noise, fail_share=1 / 20).verdict == sim.FAIL
        uncorrected |= sim.run_many(RULE, noise).verdict == sim.FAIL
    assert failed.mean() <= 0.05 + 4 * math.sqrt(0.05 / runs)
    assert uncorrected.mean() > 0.5


def arm_times(rng, ratio, order):
    return Block(
        100 * math.exp(0.01 * rng.standard_normal()),
        100 * ratio * math.exp(0.01 * rng.standard_normal()),
        order,
    )


@pytest.mark.parametrize(("ratio", "verdict"), [(0.95, Verdict.PASS), (1.15, Verdict.FAIL)])
def test_drive_measures_until_there_is_a_verdict_in_abba_order(ratio, verdict):
    rng, orders = np.random.default_rng(1), []

    def measure(order):
        orders.append(order)
        return arm_times(rng, ratio, order)

    decision = drive(RULE, measure)
    assert decision.verdict is verdict
    assert decision.n == len(orders) <= 8
    assert orders[:4] == ["AB", "BA", "BA", "AB"][: len(orders)]


def test_drive_repeats_a_void_block_in_its_own_order():
    rng, orders = np.random.default_rng(1), []
    rule = Rule.no_slower(0.03, void_rules=(VoidRule("throttled", "throttled", "above", 0),))

    def measure(order):
        orders.append(order)
        facts = {"throttled": int(len(orders) == 2)}
        block = arm_times(rng, 1.0, order)
        return Block(block.baseline, block.candidate, order, facts, facts)

    decision = drive(rule, measure)
    assert orders[:4] == ["AB", "BA", "BA", "BA"]
    assert [void.index for void in decision.voided] == [1]
    assert decision.n == len(orders) - 1


def test_drive_ends_when_the_machine_keeps_spoiling_blocks():
    rule = Rule.no_slower(0.03, void_rules=(VoidRule("throttled", "throttled", "above", 0),))
    decision = drive(rule, lambda order: Block(1.0, 1.0, order))
    assert decision.verdict is Verdict.UNFIT


def test_drive_all_measures_every_bucket_until_the_last_has_its_verdict():
    rng = np.random.default_rng(3)
    family = drive_all(RULES, lambda order: {name: arm_times(rng, 0.97, order) for name in BUCKETS})
    assert family.verdict is Verdict.PASS
    assert family.is_final
    assert set(family.decisions) == set(BUCKETS)


def test_drive_all_refuses_a_measurement_that_lacks_a_bucket():
    rng = np.random.default_rng(3)
    with pytest.raises(MisuseError, match="1MiB"):
        drive_all(RULES, lambda order: {name: arm_times(rng, 0.97, order) for name in BUCKETS[:2]})
    with pytest.raises(MisuseError, match="8KiB"):
        drive_all(RULES, lambda order: {name: arm_times(rng, 0.97, order) for name in (*BUCKETS, "8KiB")})
