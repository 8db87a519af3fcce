"""The chance of error of a t test that is looked at several times, computed exactly rather than simulated.

Why it can be exact. Let x_1, x_2, ... be independent N(0, sigma^2), S_k their sum and R_k^2 their sum of
squares (plus ``prior_df`` x the recorded variance when the node's history is pooled). With the mean at the
threshold, R_k is complete and sufficient for sigma, so by Basu's theorem it is independent of everything
scale-free: x_(k+1) / R_k is a t variable with prior_df + k degrees of freedom, independent of all t
statistics so far. Hence u_k = S_k / R_k is a Markov chain on [-sqrt(k), sqrt(k)],

    u_(k+1) = u_k cos(psi) + sin(psi),    tan(psi) = x_(k+1) / R_k,

and the t statistic at a look is a function of u_k alone. Walking backwards from the last look gives the
probability that any look crosses its bound, by one-dimensional quadrature. sigma never enters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_NODES = 600
_QUADRATURE = 64


def critical_t(alpha: float, df: int) -> float:
    """The t value that noise exceeds with probability ``alpha``; infinite without degrees of freedom."""
    from scipy.special import stdtrit

    return float(-stdtrit(df, alpha)) if df > 0 else math.inf


@lru_cache(maxsize=256)
def joint_error(looks: tuple[int, ...], alphas: tuple[float, ...], prior_df: int = 0) -> float:
    """Probability of a false PASS over all looks when the truth lies exactly at the threshold (normal noise).

    Args:
        looks: block counts, ascending, the first at least 2.
        alphas: one-sided nominal level of each look.
        prior_df: degrees of freedom that an exchangeable history contributes (0: from scratch).

    Early stops for FAIL or futility only lower it and are left out. Good to 1e-4
    (tests/decision/test_spending.py).
    """
    level_at = dict(zip(looks, alphas, strict=True))
    if len(level_at) == 1:
        return alphas[0]
    import numpy as np

    later: Callable[[Floats], Floats] = np.zeros_like
    for k in range(looks[-1] - 1, 0, -1):
        reach = _reach(k, prior_df + k - 1)
        span = (-reach, min(_bound(level_at, k, prior_df), reach))
        later = _step_back(_bound(level_at, k + 1, prior_df), later, k, span, prior_df)
    if prior_df == 0:
        # The first block alone: u_1 is its sign.
        return float(later(np.array([-1.0, 1.0])).mean())
    return float(_step_back(_bound(level_at, 1, prior_df), later, 0, (0.0, 0.0), prior_df)(np.zeros(1))[0])


def spend(looks: Sequence[int], weights: Sequence[float], alpha: float = 0.05) -> tuple[float, ...]:
    """Nominal levels in proportion to ``weights`` whose joint error from scratch is ``alpha``."""
    scale = alpha / sum(weights)
    # The joint error is all but proportional to the levels: four corrections leave less than 1e-6.
    for _ in range(4):
        scale *= alpha / joint_error(tuple(looks), tuple(scale * weight for weight in weights))
    return tuple(scale * weight for weight in weights)


def _bound(level_at: dict[int, float], k: int, prior_df: int) -> float:
    """The value of u_k from which look k passes; infinite where nobody looks."""
    df = prior_df + k - 1
    if k not in level_at or df < 1:
        return math.inf
    t = critical_t(level_at[k], df)
    return math.sqrt(k) * t / math.hypot(t, math.sqrt(df))


def _reach(k: int, df: int) -> float:
    """The largest |u_k| that matters: a long history keeps u_k near zero, and the nodes belong there."""
    if df == 0:
        return math.sqrt(k)
    t = critical_t(1e-10, df)
    return math.sqrt(k) * t / math.hypot(t, math.sqrt(df))


def _step_back(
    bound: float, later: Callable[[Floats], Floats], k: int, span: tuple[float, float], prior_df: int
) -> Callable[[Floats], Floats]:
    """P(cross at block k + 1 or later | u_k), as an interpolant over the ``span`` of u_k."""
    import numpy as np
    from scipy.special import gammaln, stdtr

    df = prior_df + k
    # Beyond this angle lies less than 1e-13 of the mass: a long history would otherwise hide between the
    # nodes.
    edge = math.atan(critical_t(1e-13, df) / math.sqrt(df))
    density_scale = math.exp(gammaln((df + 1) / 2) - gammaln(df / 2)) / math.sqrt(math.pi)
    abscissae, weights = np.polynomial.legendre.leggauss(_QUADRATURE)

    def crossing(u: Floats) -> Floats:
        # u cos(psi) + sin(psi) = sqrt(1 + u^2) sin(psi + atan u): above the bound between two angles.
        share = bound / np.sqrt(1 + u * u)
        rise = np.arcsin(np.minimum(share, 1.0))
        first = np.where(share < 1, np.clip(rise - np.arctan(u), -edge, edge), edge)
        second = np.where(share < 1, np.clip(math.pi - rise - np.arctan(u), -edge, edge), edge)
        root = math.sqrt(df)
        total: Floats = stdtr(df, root * np.tan(second)) - stdtr(df, root * np.tan(first))
        for start, stop in ((np.full_like(u, -edge), first), (second, np.full_like(u, edge))):
            half = (stop - start)[:, None] / 2
            psi = (start + stop)[:, None] / 2 + half * abscissae
            after = later(u[:, None] * np.cos(psi) + np.sin(psi))
            total = total + (half * weights * density_scale * np.cos(psi) ** (df - 1) * after).sum(axis=1)
        return total

    if k == 0:
        return crossing
    return _interpolant(crossing, *span)


def _interpolant(function: Callable[[Floats], Floats], low: float, high: float) -> Callable[[Floats], Floats]:
    """Linear between many nodes, dense at both ends: a kink marks where the bound comes into reach."""
    import numpy as np

    nodes = low + (high - low) * (1 - np.cos(np.linspace(0, math.pi, _NODES))) / 2
    values = function(nodes)
    return lambda u: np.interp(u, nodes, values)
