"""The cells that a candidate bounds, each with its own rule."""

from __future__ import annotations

from collections.abc import Iterable

from sglgate.config.eagle3 import Eagle3Need, SpeedNeed
from sglgate.decision import Rule, VoidRule
from sglgate.speed.cells import Cell
from sglgate.speed.judge import declare


def cells_of(need: Eagle3Need) -> tuple[Cell, ...]:
    """The cells that a candidate bounds, in the order of its file; none where it bounds no speed."""
    if need.speed is None:
        return ()
    found = []
    for name in need.speed.bounds:
        kind, _, users = name.partition("@")
        found.append(Cell(kind, int(users), need.speed.requests, need.speed.output_tokens, need.template))
    return tuple(found)


def rules_of(need: SpeedNeed, void_rules: Iterable[VoidRule]) -> dict[str, Rule]:
    """One rule a cell, declared before the first launch."""
    rules = tuple(void_rules)
    return {
        cell: declare(bound, looks=need.looks, design_effect=need.design_effect, void_rules=rules)
        for cell, bound in need.bounds.items()
    }
