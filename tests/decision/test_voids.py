from __future__ import annotations

import math
from dataclasses import replace

import pytest

from sglgate.decision import CPU_VOID_RULES, GPU_VOID_RULES, Block, Rule, VoidRule, decide, judge_aa
from sglgate.decision.voids import sift
from sglgate.errors import MisuseError
from sglgate.evidence import Verdict

CLEAN = {
    "throttled_share": 0.0,
    "foreign_processes": 0,
    "foreign_cpu_share": 0.0,
    "link_width_changes": 0,
    "sm_clock_share": 1.0,
}
RULE = Rule.at_least(1.0, design_effect=0.05, void_rules=GPU_VOID_RULES, max_voids=1)


def clean(blocks):
    return [replace(block, baseline_facts=CLEAN, candidate_facts=CLEAN) for block in blocks]


def dirty(block, arm, **facts):
    return replace(block, **{f"{arm}_facts": {**CLEAN, **facts}})


FAULTS = [
    ("throttled_share", 0.2, "throttled"),
    ("foreign_processes", 1, "foreign process"),
    ("link_width_changes", 1, "link width changed"),
    ("sm_clock_share", 0.9, "clock drop"),
]


@pytest.mark.parametrize("arm", ["baseline", "candidate"])
@pytest.mark.parametrize(("fact", "value", "name"), FAULTS)
def test_each_fault_voids_the_block_on_either_side(noisy, arm, fact, value, name):
    blocks = clean(noisy(3, 1.1))
    blocks[1] = dirty(blocks[1], arm, **{fact: value})
    valid, voided = sift(GPU_VOID_RULES, blocks)
    assert valid == (blocks[0], blocks[2])
    assert [void.index for void in voided] == [1]
    assert voided[0].reason.startswith(f"{arm} launch: {name}: {fact}")


@pytest.mark.parametrize("value", [None, math.nan, "yes"])
def test_an_unknown_fact_voids(noisy, value):
    blocks = clean(noisy(1, 1.1))
    blocks[0] = dirty(blocks[0], "baseline", throttled_share=value)
    assert "throttled_share is unknown" in sift(CPU_VOID_RULES, blocks)[1][0].reason


def test_a_launch_without_telemetry_is_void(noisy):
    assert len(sift(GPU_VOID_RULES, noisy(2, 1.1))[1]) == 2


def test_a_block_is_never_void_for_its_value(blocks_of):
    wild = clean(blocks_of([0.01, -3.0, 5.0, 0.02]))
    assert sift(GPU_VOID_RULES, wild) == (tuple(wild), ())


def test_a_void_block_leaves_no_trace_in_the_figures_but_is_reported(noisy):
    blocks = clean(noisy(4, 1.10))
    void = dirty(replace(blocks[2], candidate=1.0), "candidate", foreign_processes=2)
    decision = decide(RULE, [*blocks[:2], void, *blocks[2:]])
    assert decision.looks == decide(RULE, blocks).looks
    assert decision.verdict is Verdict.PASS
    assert decision.evidence()["detail"]["voided"] == [
        [2, "candidate launch: foreign process: foreign_processes 2 is above 0"]
    ]


def test_too_many_voids_are_unfit_even_beside_a_clear_gain(noisy):
    blocks = clean(noisy(6, 1.10))
    spoiled = [
        dirty(block, "baseline", throttled_share=0.5) if i in (1, 4) else block for i, block in enumerate(blocks)
    ]
    decision = decide(RULE, spoiled)
    assert decision.verdict is Verdict.UNFIT
    assert "2 of 6 blocks are void, at most 1 may be" in decision.reason
    assert judge_aa(RULE, spoiled).verdict is Verdict.UNFIT


@pytest.mark.parametrize(("side", "limit"), [("beside", 1.0), ("above", math.nan)])
def test_a_rule_that_cannot_be_kept_is_refused(side, limit):
    with pytest.raises(MisuseError, match="void rule"):
        VoidRule("x", "y", side, limit)


def test_a_limit_itself_is_clean():
    rule = VoidRule("clock drop", "sm_clock_share", "below", 0.97)
    assert rule.objection({"sm_clock_share": 0.97}) is None
    assert rule.objection({"sm_clock_share": 0.96}) is not None
    assert Block(1, 1, "AB").baseline_facts == {}
