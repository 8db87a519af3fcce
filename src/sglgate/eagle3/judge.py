"""From launches to a verdict on speed: the machine first (A/A), then the arms, cell by cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sglgate.decision import FamilyDecision, Fitness, Order, Rule, drive_all, judge_aa, order_of
from sglgate.decision.voids import sift
from sglgate.eagle3.arms import in_words, unequal_arms
from sglgate.eagle3.measure import BlockRun
from sglgate.errors import SglgateError
from sglgate.evidence import Verdict

Measure = Callable[[Order], BlockRun]


class UnequalArmsError(SglgateError):
    """The arms differ in more than speculation: their ratio would not be that of speculation."""

    def __init__(self, differences: Mapping[str, tuple[object, object]]) -> None:
        self.differences = dict(differences)
        super().__init__(
            "the arms are not equal: " + in_words(differences) + "; pin it in [arguments], or name it in may_differ"
        )


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


def judge_fitness(rules: Mapping[str, Rule], measure_aa: Measure, looks: Sequence[int]) -> SpeedVerdict:
    """Plain against plain until every cell is called fit, or one is not."""
    runs: list[BlockRun] = []
    while True:
        blocks = {name: [run.blocks()[name] for run in runs] for name in rules}
        fitness = {name: judge_aa(rule, blocks[name], looks=looks) for name, rule in rules.items()}
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
    may_differ: Mapping[str, str] | None = None,
) -> SpeedVerdict:
    """A/A, then blocks of plain and speculative launches until the rules decide.

    Raises:
        UnequalArmsError: at the first block whose servers resolved more differently than the candidate names.
    """
    fit = judge_fitness(rules, measure_aa, aa_looks)
    if fit.unfit:
        return fit
    runs: list[BlockRun] = []

    def measured(order: Order) -> Mapping[str, object]:
        run = measure(order)
        if differences := unequal_arms(run.baseline.info, run.candidate.info, may_differ):
            raise UnequalArmsError(differences)
        runs.append(run)
        return run.blocks()

    family = drive_all(rules, measured)  # type: ignore[arg-type]
    return SpeedVerdict(fit.fitness, family, fit.aa_runs, tuple(runs))
