"""From launches to a verdict on speed: the machine first (A/A), then the arms, cell by cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sglgate.decision import (
    Block,
    FamilyDecision,
    Fitness,
    NoisePrior,
    NoPrior,
    Order,
    Rule,
    VoidRule,
    drive_all,
    judge_aa,
    order_of,
    spend,
)
from sglgate.decision.rule import LOOKS
from sglgate.decision.voids import sift
from sglgate.evidence import Verdict
from sglgate.speed.measure import BlockRun

Measure = Callable[[Order], BlockRun]


Priors = Mapping[str, NoisePrior | NoPrior]


def declare(bound: float, *, looks: Sequence[int], design_effect: float, void_rules: Iterable[VoidRule]) -> Rule:
    """The rule of one cell, before the first launch: candidate / baseline tok/s is at least ``bound``."""
    settings: dict[str, object] = {"looks": tuple(looks), "void_rules": tuple(void_rules)}
    if settings["looks"] != LOOKS:
        # Later looks spend more, as the default schedule has it: an early verdict must be clearer.
        settings["alphas"] = spend(looks, range(1, len(looks) + 1))
    return Rule.at_least(bound, design_effect=design_effect, **settings)


@dataclass(frozen=True)
class SpeedVerdict:
    """``fitness`` of each cell; ``family`` is None where the machine was found unfit before the comparison."""

    fitness: Mapping[str, Fitness]
    family: FamilyDecision | None
    aa_runs: Sequence[BlockRun]
    runs: Sequence[BlockRun] = field(default_factory=tuple)

    @property
    def unfit(self) -> dict[str, Fitness]:
        """Cells in which equal arms did not look equal, or drown in noise."""
        return {name: fit for name, fit in self.fitness.items() if fit.verdict is not Verdict.PASS}


def judge_fitness(
    rules: Mapping[str, Rule], measure_aa: Measure, looks: Sequence[int], priors: Priors | None = None
) -> SpeedVerdict:
    """Equal arms until every cell is called fit, or one is not. ``priors``: the node's recorded noise, by cell."""
    runs: list[BlockRun] = []
    while True:
        blocks = {name: [run.blocks()[name] for run in runs] for name in rules}
        fitness = {
            name: judge_aa(rule, blocks[name], looks=looks, prior=(priors or {}).get(name))
            for name, rule in rules.items()
        }
        verdicts = {fit.verdict for fit in fitness.values()}
        if Verdict.UNFIT in verdicts or verdicts == {Verdict.PASS}:
            return SpeedVerdict(fitness, None, tuple(runs))
        name, rule = next(iter(rules.items()))
        runs.append(measure_aa(order_of(len(sift(rule.void_rules, blocks[name])[0]))))


def judge_speed(
    rules: Mapping[str, Rule],
    measure_aa: Measure,
    measure: Measure,
    *,
    aa_looks: Sequence[int],
    priors: Priors | None = None,
) -> SpeedVerdict:
    """A/A, then blocks of both arms until the rules decide. What a measure raises ends it."""
    fit = judge_fitness(rules, measure_aa, aa_looks, priors)
    if fit.unfit:
        return fit
    runs: list[BlockRun] = []

    def measured(order: Order) -> Mapping[str, Block]:
        runs.append(measure(order))
        return runs[-1].blocks()

    family = drive_all(rules, measured, priors=priors)
    return SpeedVerdict(fit.fitness, family, fit.aa_runs, tuple(runs))
