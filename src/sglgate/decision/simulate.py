"""The rule on many thousand simulated runs at once: what `docs/decision.md` and the tests stand on.

Everything is in units of the log ratio. The vectorised walk follows :func:`sglgate.decision.decide` look by
look; a test holds the two together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sglgate.decision.blocks import schedule
from sglgate.decision.rule import Rule
from sglgate.decision.spending import critical_t

Floats = NDArray[np.float64]
PASS, FAIL, INCONCLUSIVE = 1, -1, 0


@dataclass(frozen=True)
class History:
    """A history for each simulated run: recorded variances (runs,), their df, the pool policy's numbers."""

    recorded_variance: Floats
    df: int
    inflation: float = 1.25
    noisier_level: float = 0.15


@dataclass(frozen=True)
class Outcomes:
    """One entry a simulated run: 1 PASS, -1 FAIL, 0 INCONCLUSIVE, and the number of blocks it took."""

    verdict: NDArray[np.int64]
    blocks: NDArray[np.int64]

    @property
    def pass_rate(self) -> float:
        """Share of runs that PASSed."""
        return float((self.verdict == PASS).mean())

    @property
    def fail_rate(self) -> float:
        """Share of runs that FAILed."""
        return float((self.verdict == FAIL).mean())

    @property
    def mean_blocks(self) -> float:
        """Mean number of blocks until the verdict."""
        return float(self.blocks.mean())


def run_many(rule: Rule, distances: Floats, history: History | None = None, *, fail_share: float = 1.0) -> Outcomes:
    """Judge every row of ``distances`` (runs, cap), as distances from the threshold, positive is green."""
    runs = len(distances)
    verdict = np.zeros(runs, dtype=np.int64)
    blocks = np.full(runs, rule.cap, dtype=np.int64)
    is_open = np.ones(runs, dtype=bool)
    pooled = np.full(runs, history is not None)
    for n, alpha in zip(rule.looks, rule.alphas, strict=True):
        seen = distances[:, :n]
        mean, variance = seen.mean(axis=1), seen.var(axis=1, ddof=1)
        spread, df = variance, np.full(runs, n - 1)
        if history is not None:
            from scipy.special import fdtrc

            ratio = variance / history.recorded_variance
            pooled &= fdtrc(n - 1, history.df, ratio) >= history.noisier_level
            both = n - 1 + history.df
            mixed = (n - 1) * variance + history.df * history.inflation * history.recorded_variance
            spread, df = np.where(pooled, mixed / both, variance), np.where(pooled, both, n - 1)
        error = np.sqrt(spread / n)
        passes = mean >= _critical(alpha, df) * error
        fails = mean < -_critical(alpha * fail_share, df) * error
        for value, crosses in ((PASS, passes), (FAIL, fails)):
            new = is_open & crosses
            verdict[new], blocks[new], is_open[new] = value, n, False
        if n < rule.cap and rule.futility > 0:
            stop = is_open & (_chance_to_decide(rule, n, mean, spread, df, fail_share) < rule.futility)
            blocks[stop], is_open[stop] = n, False
    return Outcomes(verdict, blocks)


def _critical(alpha: float, df: NDArray[np.int64]) -> Floats:
    """Critical t for each entry; there are only two different degrees of freedom at a look."""
    values, where = np.unique(df, return_inverse=True)
    return np.array([critical_t(alpha, int(value)) for value in values])[where]


def _chance_to_decide(
    rule: Rule, n: int, mean: Floats, variance: Floats, df: NDArray[np.int64], fail_share: float
) -> Floats:
    from scipy.special import stdtr

    to_come = rule.cap - n
    sd = np.sqrt(variance)
    scale = sd * (to_come / rule.cap * math.sqrt(1 / to_come + 1 / n))
    alpha, root = rule.alphas[-1], math.sqrt(rule.cap)
    to_pass = _critical(alpha, df + to_come) * sd / root
    to_fail = _critical(alpha * fail_share, df + to_come) * sd / root
    return np.asarray(stdtr(df, (mean - to_pass) / scale) + stdtr(df, (-mean - to_fail) / scale))


def white(rng: np.random.Generator, runs: int, blocks: int) -> Floats:
    """Normal block noise of unit variance."""
    return rng.standard_normal((runs, blocks))


def heavy_tailed(rng: np.random.Generator, runs: int, blocks: int) -> Floats:
    """Student t with 3 degrees of freedom, scaled to unit variance: now and then a launch is far off."""
    return rng.standard_t(3, (runs, blocks)) / math.sqrt(3)


def skewed(rng: np.random.Generator, runs: int, blocks: int, towards: int) -> Floats:
    """Exponential noise of unit variance about its mean, long tail on the green (+1) or the red side (-1)."""
    return towards * (rng.standard_exponential((runs, blocks)) - 1)


def recorded(noise: Floats, ratio: float = 1.0) -> History:
    """The history of each run: ``noise`` (runs, df), with a run ``ratio`` times as noisy as it."""
    return History((noise**2).mean(axis=1) / ratio**2, noise.shape[1])


def of_launches(launches: Floats, orders: tuple[str, ...] | None = None) -> Floats:
    """Block noise (runs, n) from the noise of launches in time order (runs, 2 n), under the ABBA schedule.

    Scaled so that white launches of unit variance give blocks of unit variance.
    """
    orders = orders or schedule(launches.shape[1] // 2)
    sign = np.array([1.0 if order == "AB" else -1.0 for order in orders])
    return np.asarray(sign * (launches[:, 1::2] - launches[:, ::2]) / math.sqrt(2), dtype=np.float64)


def drifting(rng: np.random.Generator, runs: int, blocks: int, per_launch: float) -> Floats:
    """White launches on a straight slope that rises by ``per_launch`` block sds a launch."""
    slope = per_launch * math.sqrt(2) * np.arange(2 * blocks)
    return of_launches(rng.standard_normal((runs, 2 * blocks)) + slope)


def warming(rng: np.random.Generator, runs: int, blocks: int, fall: float) -> Floats:
    """White launches on a curve that falls by ``fall`` block sds in all, half of it within two launches."""
    curve = fall * math.sqrt(2) * 0.5 ** (np.arange(2 * blocks) / 2)
    return of_launches(rng.standard_normal((runs, 2 * blocks)) + curve)


def autocorrelated(rng: np.random.Generator, runs: int, blocks: int, phi: float) -> Floats:
    """A stationary AR(1) series of unit variance: n blocks, or 2 n launches for :func:`of_launches`."""
    noise = rng.standard_normal((runs, blocks)) * math.sqrt(1 - phi * phi)
    noise[:, 0] /= math.sqrt(1 - phi * phi)
    for k in range(1, blocks):
        noise[:, k] += phi * noise[:, k - 1]
    return noise
