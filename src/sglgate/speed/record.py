"""What a comparison of speed leaves in its evidence for the page and the store: plain numbers, by name. Pure."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from sglgate.config import Candidate
from sglgate.decision import Block, Rule
from sglgate.decision.blocks import is_measured
from sglgate.decision.voids import sift
from sglgate.evidence import AA_DETAIL
from sglgate.speed.cells import Cell
from sglgate.speed.measure import BlockRun


def noise_name(suite: str, baseline: Candidate, cell: Cell, turns: int = 0) -> str:
    """Under what the node's history keeps the A/A blocks of a baseline: noise differs by server and by load."""
    load = json.dumps([cell.requests, cell.output_tokens, cell.template, turns])
    digest = hashlib.sha256(f"{load}{baseline.configuration}".encode()).hexdigest()[:12]
    return f"{suite}/tok_per_s/{cell.name}/{digest}"


def aa_detail(metric: str, cell: str, rule: Rule, runs: Sequence[BlockRun]) -> dict[str, Any]:
    """The log ratios of a cell's valid A/A blocks, under ``metric`` (:func:`noise_name`)."""
    valid, _ = sift(rule.void_rules, [run.blocks()[cell] for run in runs])
    return {AA_DETAIL: {metric: [block.log_ratio for block in valid if _measured(block)]}}


def blocks_detail(
    cell: str, rule: Rule, runs: Sequence[BlockRun], log_name: Callable[[Path], str], *, arms: tuple[str, str]
) -> dict[str, Any]:
    """Each block of one cell, and the rates of both ``arms`` (their names) over the valid ones."""
    names = [f"{arm}_tok_per_s" for arm in arms]
    blocks = [run.blocks()[cell] for run in runs]
    valid, voided = sift(rule.void_rules, blocks)
    void = {item.index: item.reason for item in voided}
    measured = [(block.baseline, block.candidate) for block in valid if _measured(block)]
    means = [geometric_mean([rate for rate in rates if rate]) for rates in zip(*measured, strict=True)]
    return {
        **dict(zip(names, means or (None, None), strict=True)),
        "blocks": [
            {
                "order": block.order,
                **dict(zip(names, (block.baseline, block.candidate), strict=True)),
                "ratio": math.exp(block.log_ratio) if _measured(block) else None,
                "void": void.get(index, ""),
                "logs": [log_name(run.baseline.log), log_name(run.candidate.log)],
            }
            for index, (block, run) in enumerate(zip(blocks, runs, strict=True))
        ],
    }


def _measured(block: Block) -> bool:
    return is_measured(block.baseline) and is_measured(block.candidate)
