"""Which blocks do not count, by rules on telemetry written before the run. Never by the measured value."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sglgate.decision.blocks import Block, Fact
from sglgate.errors import MisuseError


@dataclass(frozen=True)
class VoidRule:
    """A launch is void when ``fact`` lies ``above`` or ``below`` the limit. A rule cannot see which arm it
    judges.

    Args:
        name: what happened, for the report: "throttled".
        fact: key of the launch's telemetry facts.
        side: on which side of the limit the launch is void.
        limit: in the fact's own unit.
    """

    name: str
    fact: str
    side: Literal["above", "below"]
    limit: float

    def __post_init__(self) -> None:
        if self.side not in ("above", "below"):
            raise MisuseError("unknown side", key="void rule: side", value=self.side, expected="above or below")
        if not math.isfinite(self.limit):
            raise MisuseError("not a limit", key="void rule: limit", value=self.limit, expected="a finite number")

    def objection(self, facts: Mapping[str, Fact]) -> str | None:
        """Why a launch with these facts is void, or None. An absent fact voids: unknown is not clean."""
        value = facts.get(self.fact)
        if not isinstance(value, int | float) or math.isnan(value):
            return f"{self.name}: {self.fact} is unknown"
        beyond = operator.gt if self.side == "above" else operator.lt
        return (
            f"{self.name}: {self.fact} {value:g} is {self.side} {self.limit:g}" if beyond(value, self.limit) else None
        )


GPU_VOID_RULES = (
    VoidRule("throttled", "throttled_share", "above", 0.01),
    VoidRule("foreign process", "foreign_processes", "above", 0),
    VoidRule("link width changed", "link_width_changes", "above", 0),
    VoidRule("clock drop", "sm_clock_share", "below", 0.97),
)
"""For a GPU node: share of samples with a thermal or power brake; foreign processes on any GPU of the launch;
changes of PCIe width or generation under load; mean SM clock under load over the one that is expected."""

CPU_VOID_RULES = (
    VoidRule("throttled", "throttled_share", "above", 0.01),
    VoidRule("foreign load", "foreign_cpu_share", "above", 0.10),
)
"""For the CPU lane: share of throttled samples; CPU time of foreign processes over that of all cores."""


@dataclass(frozen=True)
class Voided:
    """A block that did not count. ``index`` is its place among all blocks run, from 0."""

    index: int
    reason: str


def sift(rules: Sequence[VoidRule], blocks: Sequence[Block]) -> tuple[tuple[Block, ...], tuple[Voided, ...]]:
    """Valid blocks in the order run, and the void ones with their reasons."""
    valid: list[Block] = []
    voided: list[Voided] = []
    for index, block in enumerate(blocks):
        objections = [
            f"{arm} launch: {objection}"
            for arm, facts in (("baseline", block.baseline_facts), ("candidate", block.candidate_facts))
            for rule in rules
            if (objection := rule.objection(facts)) is not None
        ]
        if objections:
            voided.append(Voided(index, "; ".join(objections)))
        else:
            valid.append(block)
    return tuple(valid), tuple(voided)
