"""What the gates leave in their evidence for the page and the store: plain numbers, by name. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sglgate.decision import Rule
from sglgate.eagle3.acceptance import AcceptanceEstimate
from sglgate.eagle3.cost_model import CostExplanation
from sglgate.speed.cells import Cell
from sglgate.speed.measure import BlockRun
from sglgate.speed.record import blocks_detail


def cell_detail(
    cell: Cell,
    rule: Rule,
    runs: Sequence[BlockRun],
    why: CostExplanation | None,
    log_name: Callable[[Path], str],
) -> dict[str, Any]:
    """One cell of the comparison: each block, the rates of both arms over the valid ones, what explains the ratio."""
    acceptance = [m.acceptance for run in runs for m in run.candidate.metrics(cell.name) if m.acceptance is not None]
    return {
        "kind": cell.kind,
        "concurrency": cell.concurrency,
        **blocks_detail(cell.name, rule, runs, log_name, arms=("plain", "speculative")),
        # Fixed prompts answered greedily: every block has the same acceptance, save near-ties. The last one's.
        "acceptance": (
            {"mean": acceptance[-1].accept_length, "positions": list(acceptance[-1].position_rates)}
            if acceptance
            else None
        ),
        "cost": (
            {
                "plain_ms": why.times.plain_ms,
                "round_ms": why.times.round_ms,
                "predicted_ratio": why.predicted_ratio,
                "measured_ratio": why.measured_ratio,
                "break_even_accept_length": why.break_even_accept_length,
            }
            if why
            else None
        ),
    }


def acceptance_detail(found: AcceptanceEstimate) -> dict[str, Any]:
    """Mean and rate by position, each with its interval."""
    return {
        "mean": found.mean.value,
        "mean_interval": list(found.mean.interval),
        "positions": [place.value for place in found.positions],
        "position_intervals": [list(place.interval) for place in found.positions],
        "requests": found.mean.n,
    }
