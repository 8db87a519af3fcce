"""Numbers in, verdict out: one gate's blocks against its rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sglgate.decision.blocks import LEAST_SD, Block, is_measured, need_abba, order_effect
from sglgate.decision.pooling import NoisePrior, NoPrior
from sglgate.decision.rule import Rule
from sglgate.decision.signflip import sign_flip_p
from sglgate.decision.spending import critical_t
from sglgate.decision.voids import Voided, sift
from sglgate.errors import MisuseError
from sglgate.evidence import Verdict


@dataclass(frozen=True)
class Look:
    """What one look saw.

    Ratios are candidate / baseline. ``sd_log`` and ``df`` are those of the bound, ``pooled`` whether a
    history is in them. The chances are those of the bound at the cap, should the blocks go on as they began.
    The distances are the interval on the log scale from the threshold, positive on the green side: PASS when
    the least is not negative, FAIL when the most is.
    """

    n: int
    alpha: float
    ratio: float
    interval: tuple[float, float]
    sd_log: float
    df: int
    pooled: bool
    chance_to_pass: float
    chance_to_decide: float
    least_distance: float
    most_distance: float


@dataclass(frozen=True)
class Decision:
    """The state of one gate after some blocks.

    Args:
        verdict: None while more blocks are needed.
        reason: one sentence.
        n: valid blocks behind ``ratio``, ``interval`` and ``p_sign_flip``: those of the look that decided, or
            of the latest look, or all before the first look.
        ratio: geometric mean of candidate / baseline.
        interval: its lower and upper one-sided bound at the look's level; over all looks together each holds
            with probability 1 - alpha. None before the first look.
        next_look: number of valid blocks at which to ask again; None once there is a verdict.
        p_sign_flip: exact permutation p of "not beyond the threshold", for company; ``p_sign_flip_least`` is
            the smallest value that n blocks could give.
        order_effect: drift from one launch to the next as a log ratio, where both orders ran.
        looks: every look so far, oldest first.
        voided: blocks that did not count.
        pooling: where the noise came from, or why the history was not used.
    """

    rule: Rule
    verdict: Verdict | None
    reason: str
    n: int
    ratio: float | None
    interval: tuple[float, float] | None
    next_look: int | None
    p_sign_flip: float | None
    p_sign_flip_least: float | None
    order_effect: float | None
    looks: tuple[Look, ...]
    voided: tuple[Voided, ...]
    pooling: str

    @property
    def is_final(self) -> bool:
        """Whether no further block may change it."""
        return self.verdict is not None

    def cut(self, why: str) -> Decision:
        """The same, ended by something other than the rule (time is up, the node is needed): never green."""
        if self.is_final:
            return self
        reason = f"ended before a look decided: {why}; {self.reason}"
        return replace(self, verdict=Verdict.INCONCLUSIVE, reason=reason, next_look=None)

    def evidence(self) -> dict[str, Any]:
        """The fields of :class:`sglgate.evidence.Evidence` that follow from a final decision."""
        if self.verdict is None:
            raise ValueError(f"no verdict yet: {self.reason}")
        last = self.looks[-1] if self.looks else None
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "value": self.ratio,
            "bound": self.rule.threshold,
            "direction": self.rule.kind,
            "unit": "ratio",
            "n": self.n,
            "interval": self.interval,
            "detail": {
                "looks": [[look.n, look.alpha, look.ratio, *look.interval] for look in self.looks],
                "declared_looks": list(self.rule.looks),
                "declared_alphas": list(self.rule.alphas),
                "sd_log": last and last.sd_log,
                "df": last and last.df,
                "pooling": self.pooling,
                "p_sign_flip": self.p_sign_flip,
                "p_sign_flip_least": self.p_sign_flip_least,
                "order_effect_log": self.order_effect,
                "voided": [[void.index, void.reason] for void in self.voided],
            },
        }


def decide(
    rule: Rule,
    blocks: Sequence[Block],
    *,
    prior: NoisePrior | NoPrior | None = None,
    fail_share: float = 1.0,
) -> Decision:
    """Judge the blocks run so far; ask again after every block or at ``next_look``.

    PASS when, at a look, the one-sided lower confidence bound (upper, for ``at_most``) reaches the threshold;
    FAIL when the opposite bound misses it; INCONCLUSIVE at the cap, or earlier when no later look is likely
    to decide. The first look that decides stands: blocks after it change nothing.

    Args:
        rule: declared before the run.
        blocks: every block run, void ones too, in the order run.
        prior: from :func:`pool`. Dropped for good at the first look where this run's blocks are noisier than
            it.
        fail_share: share of each look's level for FAIL; :func:`decide_all` divides it among its buckets.

    A candidate that could not be measured is FAIL; a baseline that could not, UNFIT; never PASS.

    Raises:
        MisuseError: more valid blocks than the cap, or blocks that were not run in ABBA order.
    """
    valid, voided = sift(rule.void_rules, blocks)
    pooling = prior.source if isinstance(prior, NoisePrior) else prior.reason if prior else "from scratch"
    blank = Decision(rule, None, "", len(valid), None, None, rule.looks[0], None, None, None, (), voided, pooling)
    if len(voided) > rule.max_voids:
        last = voided[-1]
        return _end(
            blank,
            Verdict.UNFIT,
            f"{len(voided)} of {len(blocks)} blocks are void, at most {rule.max_voids} may be; "
            f"the last (block {last.index + 1}): {last.reason}",
        )
    broken = _broken(valid)
    if broken is not None:
        return _end(blank, *broken)
    if len(valid) > rule.cap:
        raise MisuseError(
            "more valid blocks than the rule's cap",
            key="blocks",
            value=len(valid),
            expected=f"at most {rule.cap}",
        )
    return _walk(blank, valid, prior if isinstance(prior, NoisePrior) else None, fail_share)


def _broken(blocks: Sequence[Block]) -> tuple[Verdict, str] | None:
    for number, block in enumerate(blocks, start=1):
        for arm, value, verdict in (
            ("baseline", block.baseline, Verdict.UNFIT),
            ("candidate", block.candidate, Verdict.FAIL),
        ):
            if not is_measured(value):
                return (
                    verdict,
                    f"the {arm} of valid block {number} measured {value!r}: not a finite number above zero",
                )
    return None


def _walk(start: Decision, blocks: Sequence[Block], prior: NoisePrior | None, fail_share: float) -> Decision:
    """Visit the looks in turn until one decides or the blocks run out."""
    rule, state = start.rule, start
    if blocks:
        state = _describe(state, blocks)
    for index, n in enumerate(rule.looks):
        if n > len(blocks):
            missing = f"{len(blocks)} valid blocks so far, the next look is at {n} (cap {rule.cap})"
            return replace(state, reason=f"{missing}; {state.reason}" if state.reason else missing, next_look=n)
        seen = blocks[:n]
        state = _describe(state, seen)
        need_abba(seen)
        distances = [rule.distance(block.log_ratio) for block in seen]
        mean = math.fsum(distances) / n
        variance = math.fsum((d - mean) ** 2 for d in distances) / (n - 1)
        if math.sqrt(variance) < LEAST_SD:
            return _end(state, Verdict.UNFIT, f"{n} blocks agree to nine digits: that is not a measurement")
        refusal = prior.refusal(variance, n - 1) if prior is not None else None
        if refusal is not None:
            # For good: taking it back at a quieter look would choose the noise by the result.
            prior, state = None, replace(state, pooling=f"history refused at block {n}: {refusal}")
        look = _look(rule, index, mean, variance, prior, fail_share)
        verdict, reason = _judge(rule, look)
        state = replace(state, reason=reason, ratio=look.ratio, interval=look.interval, looks=(*state.looks, look))
        if verdict is not None:
            return _end(state, verdict, reason)
    raise AssertionError("the last look always decides")


def _judge(rule: Rule, look: Look) -> tuple[Verdict | None, str]:
    side = "at or above" if rule.kind == "at_least" else "at or below"
    shown = (
        f"ratio {look.ratio:.4f} [{look.interval[0]:.4f}, {look.interval[1]:.4f}] "
        f"against {rule.threshold:g} after {look.n} blocks, sd {look.sd_log:.2%}"
    )
    if look.least_distance >= 0:
        return Verdict.PASS, f"shown to be {side} the threshold: {shown}"
    if look.most_distance < 0:
        return Verdict.FAIL, f"shown not to be {side} the threshold: {shown}"
    straddles = "the interval straddles the threshold"
    if look.n == rule.cap:
        return Verdict.INCONCLUSIVE, f"{straddles} at the cap: {shown}"
    if look.chance_to_decide < rule.futility:
        chance = f"{look.chance_to_decide:.0%} by block {rule.cap}"
        return (
            Verdict.INCONCLUSIVE,
            f"{straddles} and more blocks would hardly change that ({chance}): {shown}",
        )
    return None, f"{straddles}: {shown}"


def _look(rule: Rule, index: int, mean: float, variance: float, prior: NoisePrior | None, fail_share: float) -> Look:
    n, alpha = rule.looks[index], rule.alphas[index]
    df, spread = n - 1, variance
    if prior is not None:
        df = n - 1 + prior.df
        spread = ((n - 1) * variance + prior.df * prior.variance) / df
    error = math.sqrt(spread / n)
    low = mean - critical_t(alpha, df) * error
    high = mean + critical_t(alpha * fail_share, df) * error
    to_pass, to_fail = _chances(rule, n, mean, spread, df, fail_share)
    ends = sorted((rule.ratio_at(low), rule.ratio_at(high)))
    return Look(
        n=n,
        alpha=alpha,
        ratio=rule.ratio_at(mean),
        interval=(ends[0], ends[1]),
        sd_log=math.sqrt(spread),
        df=df,
        pooled=prior is not None,
        chance_to_pass=to_pass,
        chance_to_decide=to_pass + to_fail,
        least_distance=low,
        most_distance=high,
    )


def _chances(rule: Rule, n: int, mean: float, variance: float, df: int, fail_share: float) -> tuple[float, float]:
    """Predictive chance that the bound at the cap clears, or misses, the threshold.

    The mean at the cap differs from today's by a t variable with scale sd (m / N) sqrt(1/m + 1/n) for m
    blocks to come of N; the sd is taken as it is today.
    """
    if n >= rule.cap:
        return 0.0, 0.0
    from scipy.special import stdtr

    to_come = rule.cap - n
    sd = math.sqrt(variance)
    scale = sd * to_come / rule.cap * math.sqrt(1 / to_come + 1 / n)
    df_at_cap = df + to_come
    reach = sd / math.sqrt(rule.cap)
    to_pass = critical_t(rule.alphas[-1], df_at_cap) * reach
    to_fail = critical_t(rule.alphas[-1] * fail_share, df_at_cap) * reach
    return float(stdtr(df, (mean - to_pass) / scale)), float(stdtr(df, (-mean - to_fail) / scale))


def _describe(state: Decision, blocks: Sequence[Block]) -> Decision:
    distances = [state.rule.distance(block.log_ratio) for block in blocks]
    return replace(
        state,
        n=len(blocks),
        ratio=state.rule.ratio_at(math.fsum(distances) / len(blocks)),
        p_sign_flip=sign_flip_p(distances),
        p_sign_flip_least=0.5 ** len(blocks),
        order_effect=order_effect(blocks),
    )


def _end(state: Decision, verdict: Verdict, reason: str) -> Decision:
    return replace(state, verdict=verdict, reason=reason, next_look=None)
