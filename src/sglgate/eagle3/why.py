"""Why the ratio is what it is: the cost model on what one cell measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from sglgate.eagle3.cost_model import AllReduces, CostExplanation, StepTimes, explain
from sglgate.speed.measure import ArmRun, BlockRun


def explain_cell(
    cell: str, runs: Sequence[BlockRun], *, target_ratio: float, all_reduces_per_verify: int | None = None
) -> CostExplanation | None:
    """The cost model of one cell, from means over all blocks; None where an arm has no stream to time.

    The plain step and the round are gaps between the events of a stream, and the acceptance length is the server's
    own count, so the prediction is made from other figures than the measured ratio of throughputs. Draft and verify
    are not told apart here (``sglgate tune eagle3`` does that, from several numbers of steps).
    """
    plain_ms = _mean_gap_ms(cell, (run.baseline for run in runs))
    round_ms = _mean_gap_ms(cell, (run.candidate for run in runs))
    lengths = [
        metrics.acceptance.accept_length
        for run in runs
        for metrics in run.candidate.metrics(cell)
        if metrics.acceptance
    ]
    rates = [(run.baseline.tok_per_s(cell), run.candidate.tok_per_s(cell)) for run in runs]
    ratios = [b / a for a, b in rates if a and b]
    if plain_ms is None or round_ms is None or not lengths:
        return None
    return explain(
        StepTimes(plain_ms=plain_ms, verify_ms=round_ms),
        max(1.0, fmean(lengths)),
        measured_ratio=fmean(ratios) if ratios else None,
        target_ratio=target_ratio,
        all_reduces=AllReduces(all_reduces_per_verify) if all_reduces_per_verify else None,
    )


def _mean_gap_ms(cell: str, arms: Iterable[ArmRun]) -> float | None:
    gaps = [m.gap_ms.mean for arm in arms for m in arm.metrics(cell) if m.gap_ms]
    return fmean(gaps) if gaps else None
