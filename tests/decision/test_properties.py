from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from sglgate.decision import Block, Rule, decide, schedule
from sglgate.evidence import Verdict

logs = st.floats(-0.3, 0.3, allow_nan=False)
# A true spread: hypothesis loves repeats, and blocks that agree to nine digits are refused elsewhere.
spread = st.lists(logs, min_size=2, max_size=8).filter(lambda d: all(abs(a - d[0]) > 1e-4 for a in d[1:2]))
thresholds = st.floats(0.8, 1.25)
few = settings(max_examples=60, deadline=None)
MIRRORED = {Verdict.PASS: Verdict.FAIL, Verdict.FAIL: Verdict.PASS}


def make(log_ratios, scale=1.0):
    orders = schedule(len(log_ratios))
    return [Block(scale, scale * math.exp(d), order) for d, order in zip(log_ratios, orders, strict=True)]


def swapped(blocks):
    other = {"AB": "BA", "BA": "AB"}
    return [Block(b.candidate, b.baseline, other[b.order]) for b in blocks]


def at_least(threshold, **rest):
    return Rule.at_least(threshold, design_effect=0.05, **rest)


def away_from_border(decision):
    """Whether rounding could not have turned the verdict."""
    return all(
        min(abs(look.least_distance), abs(look.most_distance)) > 1e-9
        and abs(look.chance_to_decide - decision.rule.futility) > 1e-9
        for look in decision.looks
    )


@few
@given(spread, thresholds, st.floats(1e-6, 1e6))
def test_the_unit_of_the_measurement_does_not_matter(values, threshold, scale):
    rule = at_least(threshold)
    decision = decide(rule, make(values))
    if away_from_border(decision):
        assert decide(rule, make(values, scale)).verdict is decision.verdict


@few
@given(spread, thresholds)
def test_swapping_the_arms_mirrors_the_verdict(values, threshold):
    decision = decide(at_least(threshold), make(values))
    if away_from_border(decision):
        mirror = decide(at_least(1 / threshold), swapped(make(values)))
        assert mirror.verdict is MIRRORED.get(decision.verdict, decision.verdict)


@few
@given(spread, thresholds)
def test_at_least_of_a_ratio_is_at_most_of_its_inverse(values, threshold):
    decision = decide(at_least(threshold), make(values))
    if away_from_border(decision):
        inverse = decide(Rule("at_most", 1 / threshold, 0.05), swapped(make(values)))
        assert inverse.verdict is decision.verdict


@few
@given(spread, thresholds, st.floats(0, 0.5))
def test_a_candidate_that_is_faster_throughout_never_turns_pass_into_fail(values, threshold, gain):
    rule = at_least(threshold, futility=0.0)
    before, after = decide(rule, make(values)), decide(rule, make([d + gain for d in values]))
    rank = {Verdict.FAIL: 0, Verdict.INCONCLUSIVE: 1, None: 1, Verdict.PASS: 2, Verdict.UNFIT: 1}
    if away_from_border(before) and away_from_border(after):
        assert rank[after.verdict] >= rank[before.verdict]


@few
@given(spread, st.data())
def test_the_order_of_blocks_before_a_look_does_not_matter(values, data):
    n = len(values)
    rule = at_least(1.0, looks=(n,), alphas=(0.05,))
    decision = decide(rule, make(values))
    if away_from_border(decision):
        assert decide(rule, make(data.draw(st.permutations(values)))).verdict is decision.verdict


@few
@given(spread, thresholds, st.integers(0, 7), st.sampled_from(["baseline", "candidate"]))
def test_a_missing_number_is_never_green(values, threshold, index, arm):
    blocks = make(values)
    index %= len(blocks)
    blocks[index] = replace(blocks[index], **{arm: None})
    assert decide(at_least(threshold), blocks).verdict in (Verdict.FAIL, Verdict.UNFIT)


@few
@given(spread, thresholds)
def test_the_verdict_agrees_with_the_interval(values, threshold):
    decision = decide(at_least(threshold), make(values))
    if decision.verdict is Verdict.PASS:
        assert decision.interval[0] >= threshold * (1 - 1e-12)
    elif decision.verdict is Verdict.FAIL:
        assert decision.interval[1] < threshold * (1 + 1e-12)
    elif decision.looks:
        assert decision.interval[0] <= threshold <= decision.interval[1]
