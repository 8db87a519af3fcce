"""How much a metric changed, and how sure that is.

Both runs state a 95 % interval of their value. The change is the difference (of logarithms, where both values and
intervals are above zero), and its half width is the root of the sum of both squared half widths, each on the side
that bounds the change. The intervals are widened for the number of metrics that are looked at (Bonferroni, by the
ratio of normal quantiles), so that of two equal runs one in twenty shows any change at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from sglgate.evidence import Evidence, number

FAMILY_LEVEL = 0.05


@dataclass(frozen=True)
class Change:
    """``value`` is a ratio minus 1, or a difference in the metric's unit where ``is_ratio`` is False.

    ``low`` and ``high`` are None where the runs hold single readings without an interval.
    """

    value: float
    low: float | None
    high: float | None
    is_ratio: bool

    @property
    def is_established(self) -> bool:
        """The interval leaves out "no change"."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high

    def worst(self, direction: str) -> float | None:
        """The most that it may have got worse, as a negative number where it may have; None without an interval."""
        if self.low is None or self.high is None:
            return None
        return self.low if direction == "at_least" else -self.high


def widening(comparisons: int) -> float:
    """By how much a 95 % interval grows, so that all of ``comparisons`` hold together at 95 %."""
    normal = NormalDist()
    return normal.inv_cdf(1 - FAMILY_LEVEL / 2 / max(1, comparisons)) / normal.inv_cdf(0.975)


def has_interval(record: Evidence) -> bool:
    """Whether its interval is bounded and contains its value."""
    value = number(record.value)
    if value is None or record.interval is None:
        return False
    low, high = record.interval
    return math.isfinite(low) and math.isfinite(high) and low <= value <= high


def change(old: Evidence, new: Evidence, widened: float = 1.0) -> Change | None:
    """From ``old`` to ``new``; None where either is no number, or the units differ."""
    a, b = number(old.value), number(new.value)
    if a is None or b is None or old.unit != new.unit:
        return None
    both = [(a, *(old.interval or ())), (b, *(new.interval or ()))]
    is_ratio = all(part > 0 for parts in both for part in parts)
    if not is_ratio and a == 0 == b:
        return Change(0.0, None, None, False)
    scale, back = (math.log, math.expm1) if is_ratio else (float, float)
    step = scale(b) - scale(a)
    if not (has_interval(old) and has_interval(new)):
        return Change(back(step), None, None, is_ratio)
    (_, a_low, a_high), (_, b_low, b_high) = both
    down = widened * math.hypot(scale(b) - scale(b_low), scale(a_high) - scale(a))
    up = widened * math.hypot(scale(b_high) - scale(b), scale(a) - scale(a_low))
    return Change(back(step), back(step - down), back(step + up), is_ratio)
