"""A/A first, then the comparison: a slow candidate, a noisy machine and unequal arms never pass."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace

import pytest

from sglgate.config.eagle3 import SpeedNeed
from sglgate.decision import CPU_VOID_RULES, Rule
from sglgate.eagle3.cells import rules_of
from sglgate.eagle3.judge import UnequalArmsError, judge_speed
from sglgate.eagle3.measure import ArmRun, BlockRun
from sglgate.evidence import Verdict

CLEAN = {"foreign_cpu_share": 0.01, "throttled_share": 0.0}
RULES = {
    name: Rule.at_least(bound, design_effect=0.05, void_rules=CPU_VOID_RULES)
    for name, bound in {"chat@1": 1.05, "json@4": 0.97}.items()
}


class Machine:
    """Two arms whose truth is known: plain does 100 tok/s, speculation 100 x ratio."""

    def __init__(self, ratio: float = 1.0, noise: float = 0.005, facts=(CLEAN,), info=None, seed: int = 1) -> None:
        self.ratio, self.noise, self.facts, self.info = ratio, noise, facts, info or {}
        self.draw, self.blocks = random.Random(seed), 0

    def __call__(self, order):
        facts = self.facts[self.blocks % len(self.facts)]
        self.blocks += 1
        return BlockRun(order, self._arm(1.0, {}, CLEAN), self._arm(self.ratio, self.info, facts))

    def _arm(self, speed, info, facts):
        rate = {name: 100 * speed * self.draw.lognormvariate(0, self.noise) for name in RULES}
        results = {
            name: SimpleNamespace(usable=True, metrics=SimpleNamespace(tok_per_s=value)) for name, value in rate.items()
        }
        return ArmRun("arm", Path("log"), info, facts, results)  # type: ignore[arg-type]


def judged(aa, arms, **settings):
    return judge_speed(RULES, aa, arms, aa_looks=(2, 4, 6), **settings)


def test_a_candidate_that_wins_is_green_and_the_machine_was_asked_first():
    aa, arms = Machine(), Machine(1.3)
    found = judged(aa, arms)
    assert found.family.verdict is Verdict.PASS
    assert aa.blocks == len(found.aa_runs) >= 2
    assert len(found.runs) == arms.blocks <= 8


def test_a_delay_of_ten_percent_a_step_turns_a_bare_win_red():
    assert judged(Machine(), Machine(1.08 / 1.10)).family.verdict is Verdict.FAIL


def test_a_machine_too_noisy_to_judge_is_unfit_before_anything_is_compared():
    arms = Machine(1.3)
    found = judged(Machine(noise=0.3), arms)
    assert found.family is None
    assert found.unfit
    assert arms.blocks == 0


@pytest.mark.parametrize("seed", range(6))
def test_noise_that_begins_after_the_fitness_test_is_never_green(seed):
    # True ratio on the bound, where a green verdict would be luck.
    found = judged(Machine(), Machine(1.05, noise=0.15, seed=seed))
    assert found.family.verdict in (Verdict.INCONCLUSIVE, Verdict.UNFIT, Verdict.FAIL)


def test_load_of_others_in_some_blocks_voids_them_and_too_many_are_unfit():
    busy = {"foreign_cpu_share": 0.6, "throttled_share": 0.0}
    found = judged(Machine(), Machine(1.3, facts=(busy,)))
    assert found.family.verdict is Verdict.UNFIT
    assert "foreign load" in found.family.reason
    some = judged(Machine(), Machine(1.3, facts=(CLEAN, busy, CLEAN, CLEAN)))
    assert some.family.verdict is Verdict.PASS
    assert [void.index for void in some.family.decisions["chat@1"].voided] == [1]


def test_a_fact_that_nobody_measured_voids_the_block():
    assert judged(Machine(), Machine(1.3, facts=({},))).family.verdict is Verdict.UNFIT


def test_unequal_arms_end_the_comparison_by_name():
    with pytest.raises(UnequalArmsError, match="max_running_requests"):
        judged(Machine(), Machine(1.3, info={"max_running_requests": 48}))
    accepted = {"max-running-requests": "one user at a time"}
    assert judged(Machine(), Machine(1.3, info={"max_running_requests": 48}), may_differ=accepted).family is not None


def test_a_win_and_a_margin_become_rules_with_their_own_looks():
    need = SpeedNeed(min_ratio={"chat@1": 1.1}, max_loss={"json@4": 0.03}, looks=[2, 4])
    rules = rules_of(need, CPU_VOID_RULES)
    assert {name: rule.threshold for name, rule in rules.items()} == {"chat@1": 1.1, "json@4": 0.97}
    assert rules["chat@1"].cap == 4
