"""Order statistics of samples: all samples, none dropped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sglgate.evidence import Verdict


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval, from ``n`` independent samples."""

    value: float
    interval: tuple[float, float]
    n: int


def judge_floor(found: Estimate, floor: float) -> Verdict:
    """PASS where the interval lies at or above the floor, FAIL where it lies below, else INCONCLUSIVE."""
    if found.interval[0] >= floor:
        return Verdict.PASS
    return Verdict.FAIL if found.interval[1] < floor else Verdict.INCONCLUSIVE


@dataclass(frozen=True)
class Summary:
    """A sample in its own unit (the field that holds it names the unit)."""

    n: int
    mean: float
    median: float
    p90: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Summary | None:
        """None for no values: an empty sample has no statistics."""
        ordered = sorted(values)
        if not ordered:
            return None
        return cls(
            n=len(ordered),
            mean=math.fsum(ordered) / len(ordered),
            median=quantile(ordered, 0.5),
            p90=quantile(ordered, 0.9),
            p99=quantile(ordered, 0.99),
            max=ordered[-1],
        )


def quantile(ordered: Sequence[float], q: float) -> float:
    """Linear interpolation between order statistics: numpy's default, as in ``sglang.bench_serving``."""
    position = q * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])
