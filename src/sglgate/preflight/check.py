"""One thing that preflight looked at: what it found, what it must be, and what to do where it is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Check:
    """A figure against its bound, as a gate judges it.

    Args:
        remedy: what a person can do, said where the check is red.
        problems: everything that is wrong, one sentence each.
    """

    metric: str
    value: float | int | bool | str | None
    bound: float | int | bool | str | None
    direction: Literal["at_least", "at_most", "equal"]
    unit: str
    remedy: str
    problems: tuple[str, ...] = ()
    n: int = 1
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether the bound is kept; an unknown value keeps none."""
        if self.value is None or self.value != self.value:
            return False
        if self.direction == "equal":
            return self.value == self.bound
        if isinstance(self.value, str) or isinstance(self.bound, str) or self.bound is None:
            return False
        return self.value >= self.bound if self.direction == "at_least" else self.value <= self.bound

    @property
    def reason(self) -> str:
        """What is wrong and what to do; of a check that holds, nothing."""
        if self.holds:
            return ""
        return "; ".join([*self.problems, f"remedy: {self.remedy}"])


def count(metric: str, problems: Sequence[str], remedy: str, *, n: int, detail: dict[str, Any] | None = None) -> Check:
    """A check of ``n`` things of which none may have a problem; where there is nothing to look at, it is red."""
    found = list(problems) or ([] if n else ["there was nothing to look at"])
    return Check(metric, len(found), 0, "equal", "problems", remedy, tuple(found), n, detail or {})
