"""Where a series changed its level: a notice for people, never a gate.

The series is replaced by its ranks, so that one wild value counts as one value. For every place to cut it, the mean
rank before is held against the mean rank after, standardised; the largest of these is the statistic (Pettitt's test,
Applied Statistics 28, 1979, with equal weight for every cut). How large it grows by chance is seen by shuffling the
series ``SHUFFLES`` times: a series without a change is as likely in any order. A change that is found cuts the series
in two, and both parts are asked again. The shuffles start from a fixed seed: the same series gives the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

SHUFFLES: Final = 999
LEVEL: Final = 0.01
SHORTEST: Final = 4
"""Fewer points than this are no level."""


@dataclass(frozen=True)
class Change:
    """``index`` is the first point of the new level; ``p`` the chance of such a cut in a series without a change."""

    index: int
    before: float
    after: float
    p: float

    @property
    def ratio(self) -> float | None:
        """The new level over the old one."""
        return self.after / self.before if self.before else None


def change_points(values: Sequence[float]) -> list[Change]:
    """All changes of level, oldest first; the levels are medians between neighbouring changes."""
    import numpy as np

    cuts = sorted(_cuts(np.asarray(values, dtype=float), 0, np.random.default_rng(1979)))
    edges = [0, *(index for index, _ in cuts), len(values)]
    return [
        Change(index, median(values[edges[i] : index]), median(values[index : edges[i + 2]]), p)
        for i, (index, p) in enumerate(cuts)
    ]


def _cuts(part: Any, offset: int, rng: Any) -> list[tuple[int, float]]:
    if len(part) < 2 * SHORTEST:
        return []
    import numpy as np
    from scipy.stats import rankdata

    ranks = rankdata(part)
    shuffled = rng.permuted(np.tile(ranks, (SHUFFLES, 1)), axis=1)
    statistics = _standardised(np.vstack([ranks, shuffled]))
    largest = statistics.max(axis=1)
    # 1e-9: ties are equal ranks, summed in another order.
    p = float(np.mean(largest >= largest[0] - 1e-9))
    if p > LEVEL:
        return []
    cut = int(statistics[0].argmax()) + SHORTEST
    return [
        *_cuts(part[:cut], offset, rng),
        (offset + cut, p),
        *_cuts(part[cut:], offset + cut, rng),
    ]


def _standardised(rows: Any) -> Any:
    """|sum of ranks before each allowed cut - its expectation| / its standard deviation, up to one constant factor."""
    import numpy as np

    n = rows.shape[1]
    before = np.arange(SHORTEST, n - SHORTEST + 1)
    sums = np.cumsum(rows, axis=1)[:, before - 1]
    return np.abs(sums - before * (n + 1) / 2) / np.sqrt(before * (n - before))
