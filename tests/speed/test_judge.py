"""A/A first, then the comparison: a slow candidate and a noisy machine never pass."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace

import pytest

from sglgate.decision import CPU_VOID_RULES, NoisePrior, Rule
from sglgate.evidence import Verdict
from sglgate.speed.judge import judge_speed
from sglgate.speed.measure import ArmRun, BlockRun

CLEAN = {"foreign_cpu_share": 0.01, "throttled_share": 0.0}
RULES = {
    name: Rule.at_least(bound, design_effect=0.05, void_rules=CPU_VOID_RULES)
    for name, bound in {"chat@1": 1.05, "json@4": 0.97}.items()
}


class Machine:
    """Two arms whose truth is known: plain does 100 tok/s, speculation 100 x ratio."""

    def __init__(self, ratio: float = 1.0, noise: float = 0.005, facts=(CLEAN,), seed: int = 1) -> None:
        self.ratio, self.noise, self.facts = ratio, noise, facts
        self.draw, self.blocks = random.Random(seed), 0

    def __call__(self, order):
        facts = self.facts[self.blocks % len(self.facts)]
        self.blocks += 1
        return BlockRun(order, self._arm(1.0, CLEAN), self._arm(self.ratio, facts))

    def _arm(self, speed, facts):
        rate = {name: 100 * speed * self.draw.lognormvariate(0, self.noise) for name in RULES}
        results = {
            name: [SimpleNamespace(usable=True, metrics=SimpleNamespace(tok_per_s=value))]
            for name, value in rate.items()
        }
        return ArmRun("arm", Path("log"), {}, facts, results)  # type: ignore[arg-type]


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


def history(sd: float) -> dict[str, NoisePrior]:
    prior = NoisePrior(variance=sd**2, df=24, recorded_variance=sd**2, noisier_level=0.15, source="24 A/A blocks")
    return dict.fromkeys(RULES, prior)


def test_the_recorded_noise_of_the_node_saves_blocks_and_is_named():
    scratch, pooled = (
        judge_speed(RULES, Machine(), Machine(1.09, seed=5), aa_looks=(2, 4, 6), priors=priors)
        for priors in (None, history(0.008))
    )

    assert scratch.family.verdict is pooled.family.verdict is Verdict.PASS
    assert len(pooled.runs) < len(scratch.runs)
    assert pooled.family.decisions["chat@1"].pooling == "24 A/A blocks"
    assert scratch.family.decisions["chat@1"].pooling == "from scratch"


def test_a_run_noisier_than_the_history_is_judged_from_its_own_blocks():
    found = judged(Machine(), Machine(1.3, noise=0.02), priors=history(0.001))

    assert "history refused" in found.family.decisions["chat@1"].pooling
