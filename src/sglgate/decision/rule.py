"""What is written down before the first launch: threshold, looks, the error each may spend, voids, cap."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from sglgate.decision.spending import joint_error
from sglgate.decision.voids import VoidRule
from sglgate.errors import MisuseError

LOOKS = (2, 4, 6, 8)
ALPHAS = (0.006, 0.010, 0.016, 0.022)
"""The default levels. Their joint error is 0.041 from scratch and less with a history; what is left of 0.05
pays for autocorrelated launches (docs/decision.md)."""

ALPHA = 0.05
# Beyond this the exact sign-flip enumeration and the sanity of a night's run both end.
MOST_BLOCKS = 32
_NUMERICAL_SLACK = 2e-4


@dataclass(frozen=True)
class Rule:
    """A speed gate, declared whole.

    Args:
        kind: ``at_least``: candidate / baseline must be at or above ``threshold`` (throughput).
            ``at_most``: it must be at or below (time; non-inferiority).
        threshold: the ratio at the border between green and red.
        design_effect: distance from the threshold, as a fraction, that the rule must be able to see. The A/A
            gate judges the machine against it: drift against its half, noise against what the cap can
            resolve.
        looks: numbers of valid blocks at which a verdict may fall; the last is the cap. Even counts cancel
            drift.
        alphas: one-sided level spent at each look, for PASS and for FAIL alike.
        alpha: what all looks together may spend. A schedule that spends more is refused.
        futility: at a look, stop as INCONCLUSIVE when the chance that any later look decides is below this.
        min_power: the A/A gate wants at least this chance to PASS when the truth is ``design_effect`` beyond
            the threshold.
        void_rules: telemetry rules that void a block.
        max_voids: more void blocks than this and the machine is UNFIT.
    """

    kind: Literal["at_least", "at_most"]
    threshold: float
    design_effect: float
    looks: tuple[int, ...] = LOOKS
    alphas: tuple[float, ...] = ALPHAS
    alpha: float = ALPHA
    futility: float = 0.10
    min_power: float = 0.5
    void_rules: tuple[VoidRule, ...] = ()
    max_voids: int = 2

    def __post_init__(self) -> None:
        # Lists come from TOML; a rule must stay hashable and unchangeable.
        for name in ("looks", "alphas", "void_rules"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        _need(self.kind in ("at_least", "at_most"), "kind", self.kind, "at_least or at_most")
        _need(_positive(self.threshold), "threshold", self.threshold, "a finite ratio above 0")
        _need(
            _positive(self.design_effect),
            "design_effect",
            self.design_effect,
            "a fraction above 0, such as 0.03: without it nobody can say whether the machine is fit",
        )
        ascending = all(a < b for a, b in pairwise(self.looks))
        _need(
            bool(self.looks) and all(type(n) is int for n in self.looks) and ascending and self.looks[0] >= 2,
            "looks",
            self.looks,
            "ascending block counts, the first at least 2 (one block has no spread)",
        )
        _need(self.cap <= MOST_BLOCKS, "looks", self.looks, f"a cap of at most {MOST_BLOCKS} blocks")
        _need(
            len(self.alphas) == len(self.looks) and all(_positive(a) and a < 0.5 for a in self.alphas),
            "alphas",
            self.alphas,
            "one level between 0 and 0.5 for each look",
        )
        _need(_positive(self.alpha) and self.alpha < 0.5, "alpha", self.alpha, "between 0 and 0.5, such as 0.05")
        _need(0 <= self.futility < 1, "futility", self.futility, "a chance from 0 (off) to below 1")
        _need(0 < self.min_power < 1, "min_power", self.min_power, "a chance between 0 and 1")
        _need(
            type(self.max_voids) is int and self.max_voids >= 0,
            "max_voids",
            self.max_voids,
            "a count, 0 or more",
        )
        self._need_affordable()

    def _need_affordable(self) -> None:
        if (self.looks, self.alphas, self.alpha) == (LOOKS, ALPHAS, ALPHA):
            return  # held by a test; keeps scipy out of collection
        spent = joint_error(self.looks, self.alphas)
        _need(
            spent <= self.alpha + _NUMERICAL_SLACK,
            "alphas",
            self.alphas,
            f"together they spend {spent:.4f}, more than alpha = {self.alpha:g}; "
            "sglgate.decision.spend(looks, weights) scales them",
        )

    @classmethod
    def at_least(cls, threshold: float, *, design_effect: float, **rest: object) -> Rule:
        """Throughput: PASS when candidate / baseline is shown to be at or above ``threshold``."""
        return cls("at_least", threshold, design_effect, **rest)  # type: ignore[arg-type]

    @classmethod
    def no_slower(cls, margin: float, **rest: object) -> Rule:
        """Time, non-inferiority: PASS when candidate / baseline is shown to be at or below 1 + ``margin``.

        The design effect is the margin itself: the rule is sized for a candidate that is exactly as fast.
        """
        return cls("at_most", 1 + margin, margin, **rest)  # type: ignore[arg-type]

    @property
    def cap(self) -> int:
        """The last look: never a block more."""
        return self.looks[-1]

    @property
    def effect_log(self) -> float:
        """The design effect on the log scale."""
        return math.log1p(self.design_effect)

    def distance(self, log_ratio: float) -> float:
        """How far a log ratio lies on the green side of the threshold; below zero on the red side."""
        gap = log_ratio - math.log(self.threshold)
        return gap if self.kind == "at_least" else -gap

    def ratio_at(self, distance: float) -> float:
        """The ratio ``distance`` on the green side of the threshold; inverse of :meth:`distance`."""
        exponent = math.log(self.threshold) + (distance if self.kind == "at_least" else -distance)
        try:
            return math.exp(exponent)
        except OverflowError:
            return math.inf


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def _need(holds: bool, key: str, value: object, expected: str) -> None:
    if not holds:
        raise MisuseError("not a rule that can be kept", key=f"rule: {key}", value=value, expected=expected)
