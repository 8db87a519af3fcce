"""The unit of evidence: a baseline launch and a candidate launch next to each other, and in which order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Literal

from sglgate.errors import MisuseError

Order = Literal["AB", "BA", "ABBA"]
"""A is the baseline, B the candidate. ``ABBA``: both interleaved inside one launch, balanced by itself."""

Fact = float | int | bool | None

LEAST_SD = 1e-9
"""Launches of a real server never agree to nine digits: numbers that do were copied, rounded or made up."""


@dataclass(frozen=True)
class Block:
    """One paired observation.

    Args:
        baseline: what the baseline arm measured, in any unit, above zero.
        candidate: what the candidate arm measured, in the same unit.
        order: which arm ran first.
        baseline_facts: telemetry of the baseline launch, for the void rules.
        candidate_facts: telemetry of the candidate launch.
    """

    baseline: float | None
    candidate: float | None
    order: Order
    baseline_facts: Mapping[str, Fact] = field(default_factory=dict)
    candidate_facts: Mapping[str, Fact] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.order not in ("AB", "BA", "ABBA"):
            raise MisuseError("unknown order of arms", key="order", value=self.order, expected="AB, BA or ABBA")

    @property
    def log_ratio(self) -> float:
        """log(candidate / baseline). ValueError where either arm is not a positive finite number."""
        if not (is_measured(self.baseline) and is_measured(self.candidate)):
            raise ValueError(f"not measured: baseline {self.baseline!r}, candidate {self.candidate!r}")
        # A difference of logs: the quotient of two extreme numbers overflows where their logs do not.
        return math.log(self.candidate) - math.log(self.baseline)  # type: ignore[arg-type]


def is_measured(value: object) -> bool:
    """Whether an arm's value can be used: a finite number above zero."""
    return isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < math.inf


def order_of(index: int) -> Order:
    """The order of arms of valid block ``index`` (from 0): AB BA BA AB, again and again.

    The mean is free of a linear drift of the machine after 2, 4, 6, ... blocks, and of a quadratic one after
    4, 8, ... (plain AB BA AB BA: of a linear one only). Where two blocks meet, the same arm meets itself as
    often as the other two orders allow, which keeps slow noise from adding up. A void block is repeated with
    its own order, so count valid blocks only.
    """
    return "AB" if index % 4 in (0, 3) else "BA"


def schedule(n_blocks: int) -> tuple[Order, ...]:
    """The orders of the first ``n_blocks`` valid blocks."""
    return tuple(order_of(index) for index in range(n_blocks))


def order_imbalance(blocks: Sequence[Block]) -> int:
    """How many more blocks ran AB than BA; a drift leaks into the mean by this number over n."""
    return sum({"AB": 1, "BA": -1, "ABBA": 0}[block.order] for block in blocks)


def need_abba(blocks: Sequence[Block]) -> None:
    """Refuse blocks whose orders leave a drift in the mean (MisuseError). An odd number may lean by one."""
    if abs(order_imbalance(blocks)) > 1:
        raise MisuseError(
            "blocks were not run in ABBA order, a drift would count as a difference",
            key="blocks",
            value=" ".join(block.order for block in blocks),
            expected="the orders of sglgate.decision.schedule",
        )


def order_effect(blocks: Sequence[Block]) -> float | None:
    """Drift from one launch to the next, as a log: half the gap between BA and AB blocks; None without both.

    A machine that speeds up gives the second arm of each block the better number; the sign is that of the
    measured quantity.
    """
    ab = [block.log_ratio for block in blocks if block.order == "AB"]
    ba = [block.log_ratio for block in blocks if block.order == "BA"]
    if not ab or not ba:
        return None
    return (sum(ab) / len(ab) - sum(ba) / len(ba)) / 2
