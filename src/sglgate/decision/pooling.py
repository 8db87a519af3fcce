"""When the node's recorded A/A noise may stand in for blocks, and how much it is then worth.

An A/A block has the same configuration on both sides, so its log ratio is noise about zero. If this run's
blocks are as noisy as the recorded ones, both estimate one variance, and the t test may use them together: an
exact t test with the history's degrees of freedom added. If they are noisier, that test passes too easily, so
the history must first be shown to belong: same stack, profile and metric, young enough, enough of it, steady
in itself, and not quieter than this run.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sglgate.errors import MisuseError


@dataclass(frozen=True)
class AaRecord:
    """One A/A block of the past.

    Args:
        at: when it ended, with a time zone.
        session: the run it belongs to; blocks of a session share a machine state.
        stack: digest of the stack's fingerprint.
        profile: name of the profile.
        metric: what was measured and how: "eagle3/output_tok_per_s/c8", "allreduce/65536". Noise differs by
            metric.
        log_ratio: log(second arm / first arm) of the block.
    """

    at: datetime
    session: str
    stack: str
    profile: str
    metric: str
    log_ratio: float

    def __post_init__(self) -> None:
        if self.at.tzinfo is None:
            raise MisuseError("time without a zone", key="A/A record: at", value=self.at, expected="an aware datetime")
        if not math.isfinite(self.log_ratio):
            raise MisuseError(
                "not a measurement",
                key="A/A record: log_ratio",
                value=self.log_ratio,
                expected="a finite number",
            )


@dataclass(frozen=True)
class PoolPolicy:
    """What a history must be; declared before the run.

    Args:
        max_age_days: older records do not count.
        min_blocks: fewer matching blocks than this are no history.
        min_sessions: they must come from at least so many sessions.
        noisier_level: the history is refused when this run's blocks would be so noisy with less than this
            probability, were they no noisier than the history. High on purpose: with 2 to 8 blocks the test
            is blunt, and wrongly keeping the history errs towards PASS while wrongly refusing it costs a
            block.
        unsteady_level: the same for the history against itself.
        inflation: the recorded variance is taken this much larger, for what the blunt test cannot see.
    """

    max_age_days: float = 30
    min_blocks: int = 12
    min_sessions: int = 3
    noisier_level: float = 0.15
    unsteady_level: float = 0.01
    inflation: float = 1.25

    def __post_init__(self) -> None:
        limits = (
            ("max_age_days", 0 < self.max_age_days < math.inf, "days above 0"),
            ("min_blocks", self.min_blocks >= 4, "at least 4"),
            (
                "min_sessions",
                self.min_sessions >= 2,
                "at least 2: one session cannot show that sessions agree",
            ),
            ("noisier_level", 0 < self.noisier_level < 1, "a probability"),
            ("unsteady_level", 0 < self.unsteady_level < 1, "a probability"),
            (
                "inflation",
                1 <= self.inflation < math.inf,
                "1 or more: below it the bound would be too narrow",
            ),
        )
        for key, holds, expected in limits:
            if not holds:
                raise MisuseError(
                    "not a policy", key=f"pool policy: {key}", value=getattr(self, key), expected=expected
                )


@dataclass(frozen=True)
class NoisePrior:
    """A history that may be pooled: the log ratio's variance (inflation included) and degrees of freedom."""

    variance: float
    df: int
    recorded_variance: float
    noisier_level: float
    source: str

    @property
    def sd_log(self) -> float:
        """Standard deviation of a block's log ratio, inflation included."""
        return math.sqrt(self.variance)

    def refusal(self, variance: float, df: int) -> str | None:
        """Why blocks of this ``variance`` do not belong, or None (one-sided F test, recorded variance)."""
        if df < 1:
            return None
        from scipy.special import fdtrc

        p = float(fdtrc(df, self.df, variance / self.recorded_variance))
        if p >= self.noisier_level:
            return None
        return (
            f"this run is noisier than the node's history: sd {math.sqrt(variance):.2%} against "
            f"{math.sqrt(self.recorded_variance):.2%} (F test p = {p:.3f} < {self.noisier_level:g})"
        )


@dataclass(frozen=True)
class NoPrior:
    """A history that may not be pooled, and why. :func:`decide` then judges from this run's blocks alone."""

    reason: str


def pool(
    history: Sequence[AaRecord],
    *,
    now: datetime,
    stack: str,
    profile: str,
    metric: str,
    policy: PoolPolicy | None = None,
) -> NoisePrior | NoPrior:
    """The node's recorded noise for this stack, profile and metric, or the reason why it does not count.

    The variance is taken about zero, the known mean of an A/A block: all n blocks then carry information, and
    a session that was off as a whole makes the estimate larger, not smaller. Whether the run's own blocks
    belong to it is asked again at every look (:meth:`NoisePrior.refusal`).
    """
    policy = policy or PoolPolicy()
    if now.tzinfo is None:
        raise MisuseError("time without a zone", key="pool: now", value=now, expected="an aware datetime")
    matching = sorted(
        (r for r in history if (r.stack, r.profile, r.metric) == (stack, profile, metric)), key=lambda r: r.at
    )
    if any(record.at > now for record in matching):
        return NoPrior(f"the history holds a record from the future ({matching[-1].at.isoformat()}): a clock is wrong")
    young = [record for record in matching if now - record.at <= timedelta(days=policy.max_age_days)]
    sessions: dict[str, list[float]] = defaultdict(list)
    for record in young:
        sessions[record.session].append(record.log_ratio)
    if len(young) < policy.min_blocks or len(sessions) < policy.min_sessions:
        return NoPrior(
            f"{len(young)} A/A blocks from {len(sessions)} sessions of this stack, profile and metric are "
            f"younger than {policy.max_age_days:g} days ({len(matching)} of any age); "
            f"{policy.min_blocks} from {policy.min_sessions} are needed"
        )
    ratios = [record.log_ratio for record in young]
    variance = sum(d * d for d in ratios) / len(ratios)
    if variance < 1e-18:
        return NoPrior("the recorded A/A blocks agree to the last digit: that is not a measurement")
    for name, p in (
        (
            "the sessions differ by more than their blocks do (F test",
            _p_sessions_agree(list(sessions.values())),
        ),
        ("its older and newer halves are not equally noisy (Levene test", _p_halves_equally_noisy(ratios)),
    ):
        if p < policy.unsteady_level:
            return NoPrior(f"the history is not steady: {name}, p = {p:.4f} < {policy.unsteady_level:g})")
    return NoisePrior(
        variance=variance * policy.inflation,
        df=len(ratios),
        recorded_variance=variance,
        noisier_level=policy.noisier_level,
        source=(
            f"{len(ratios)} A/A blocks of {len(sessions)} sessions, "
            f"{young[0].at:%Y-%m-%d} to {young[-1].at:%Y-%m-%d}, "
            f"sd {math.sqrt(variance):.2%}, variance taken {policy.inflation:g} times"
        ),
    )


def _p_sessions_agree(sessions: Sequence[Sequence[float]]) -> float:
    """F test, between over within: a session off as a whole makes its blocks depend on each other."""
    from scipy.special import fdtrc

    between = sum(sum(session) ** 2 / len(session) for session in sessions)
    within = sum(d * d for session in sessions for d in session) - between
    df = sum(map(len, sessions)) - len(sessions)
    if df == 0:
        return 1.0  # one block a session: what sessions differ by is then in the variance itself
    return float(fdtrc(len(sessions), df, between / len(sessions) / (within / df))) if within > 0 else 0.0


def _p_halves_equally_noisy(ratios: Sequence[float]) -> float:
    """Levene's test about the known mean zero: a node changes with a driver, a fan, a neighbour."""
    from scipy.special import fdtrc

    half, df = len(ratios) // 2, len(ratios) - 2
    older, newer = ([abs(d) for d in part] for part in (ratios[:half], ratios[half:]))
    means = [sum(part) / len(part) for part in (older, newer)]
    gap = (means[0] - means[1]) ** 2 * len(older) * len(newer) / len(ratios)
    spread = sum((d - mean) ** 2 for part, mean in zip((older, newer), means, strict=True) for d in part)
    return float(fdtrc(1, df, gap / (spread / df))) if spread > 0 else 0.0
