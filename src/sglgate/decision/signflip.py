"""The robust companion: an exact test that believes nothing about the noise but its symmetry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def sign_flip_p(distances: Sequence[float]) -> float:
    """Exact one-sided sign-flip permutation p: the share of all 2^n sign patterns whose sum is at least the
    observed one.

    Args:
        distances: log ratios measured from the threshold, positive on the green side; 1 to 32 of them.

    If each is symmetric about a value at or below zero, P(p <= a) <= a for every a, whatever the tails or the
    scales. With n blocks no p below 2^-n exists, so fewer than 5 blocks cannot reach 0.05.
    """
    import numpy as np

    values = np.asarray(distances, dtype=np.float64)
    # Two halves, then a search: 2^16 sums a side reach 32 blocks, where the full table would not fit in
    # memory.
    left, right = _signed_sums(values[: len(values) // 2]), np.sort(_signed_sums(values[len(values) // 2 :]))
    # Patterns that tie with the observed sum count; rounding must not push them below it.
    observed = values.sum() - 1e-9 * np.abs(values).sum()
    below = np.searchsorted(right, observed - left, side="left")
    return float((len(right) - below).sum() / (len(left) * len(right)))


def _signed_sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums
