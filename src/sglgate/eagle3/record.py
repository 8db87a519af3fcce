"""What the gates leave in their evidence for the page and the store: plain numbers, by name. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sglgate.decision import Block, Rule
from sglgate.decision.blocks import is_measured
from sglgate.decision.voids import sift
from sglgate.eagle3.acceptance import AcceptanceEstimate
from sglgate.eagle3.cells import Cell
from sglgate.eagle3.cost_model import CostExplanation
from sglgate.eagle3.measure import BlockRun
from sglgate.evidence import AA_DETAIL


def aa_detail(cell: str, rule: Rule, runs: Sequence[BlockRun]) -> dict[str, Any]:
    """The log ratios of a cell's valid A/A blocks, under the name that the node's history knows them by."""
    valid, _ = sift(rule.void_rules, [run.blocks()[cell] for run in runs])
    return {AA_DETAIL: {f"eagle3/tok_per_s/{cell}": [block.log_ratio for block in valid if _measured(block)]}}


def cell_detail(
    cell: Cell,
    rule: Rule,
    runs: Sequence[BlockRun],
    why: CostExplanation | None,
    log_name: Callable[[Path], str],
) -> dict[str, Any]:
    """One cell of the comparison: each block, the rates of both arms over the valid ones, what explains the ratio."""
    blocks = [run.blocks()[cell.name] for run in runs]
    valid, voided = sift(rule.void_rules, blocks)
    void = {item.index: item.reason for item in voided}
    measured = [block for block in valid if _measured(block)]
    acceptance = [
        metrics.acceptance
        for run in runs
        if (metrics := run.candidate.results[cell.name].metrics) and metrics.acceptance is not None
    ]
    return {
        "kind": cell.kind,
        "concurrency": cell.concurrency,
        "plain_tok_per_s": _geometric_mean([block.baseline for block in measured]),
        "speculative_tok_per_s": _geometric_mean([block.candidate for block in measured]),
        "blocks": [
            {
                "order": block.order,
                "plain_tok_per_s": block.baseline,
                "speculative_tok_per_s": block.candidate,
                "ratio": math.exp(block.log_ratio) if _measured(block) else None,
                "void": void.get(index, ""),
                "logs": [log_name(run.baseline.log), log_name(run.candidate.log)],
            }
            for index, (block, run) in enumerate(zip(blocks, runs, strict=True))
        ],
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


def _measured(block: Block) -> bool:
    return is_measured(block.baseline) and is_measured(block.candidate)


def _geometric_mean(values: Sequence[float | None]) -> float | None:
    logs = [math.log(value) for value in values if value]
    return math.exp(math.fsum(logs) / len(logs)) if logs else None
