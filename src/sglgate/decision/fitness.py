"""Can this machine judge? The A/A gate: the same configuration on both sides, before anything is compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from sglgate.decision.blocks import LEAST_SD, Block, is_measured, need_abba, order_effect
from sglgate.decision.pooling import NoisePrior, NoPrior
from sglgate.decision.rule import Rule
from sglgate.decision.spending import critical_t
from sglgate.decision.voids import Voided, sift
from sglgate.errors import MisuseError
from sglgate.evidence import Verdict

AA_LOOKS = (2, 4, 6)
_ESTABLISHED = 0.05
_DOUBT = 0.2


@dataclass(frozen=True)
class Fitness:
    """What the A/A blocks say about the machine.

    Args:
        verdict: PASS (fit), UNFIT, or None while more A/A blocks are needed.
        drift: geometric-mean ratio of the two equal arms minus 1; the truth is 0.
        drift_limit: half the rule's design effect, as a ratio minus 1.
        sd_log: standard deviation of a block's log ratio (about zero, a history pooled where it may be).
        power: chance that the rule PASSes at its cap when the truth lies its design effect beyond.
        order_effect: drift from launch to launch as a log ratio; ABBA cancels it, so it is only reported.
        next_look: number of A/A blocks at which to ask again.
    """

    verdict: Verdict | None
    reason: str
    n: int
    drift: float | None
    drift_limit: float
    sd_log: float | None
    power: float | None
    order_effect: float | None
    next_look: int | None
    voided: tuple[Voided, ...]


@dataclass(frozen=True)
class _Objection:
    text: str
    is_established: bool


def power_at_cap(rule: Rule, sd_log: float, prior_df: int = 0) -> float:
    """Chance that the last look alone PASSes when the truth is ``rule.design_effect`` beyond the threshold.

    A lower bound of the whole rule's power, up to the rare early FAIL or futile stop: noncentral t with
    cap - 1 + prior_df degrees of freedom and noncentrality effect sqrt(cap) / sd.
    """
    from scipy.special import nctdtr

    df = rule.cap - 1 + prior_df
    shift = rule.effect_log * math.sqrt(rule.cap) / sd_log
    if shift > 30:
        return 1.0  # nctdtr loses its digits out there
    return float(1 - nctdtr(df, shift, critical_t(rule.alphas[-1], df)))


def judge_aa(
    rule: Rule,
    aa_blocks: Sequence[Block],
    *,
    prior: NoisePrior | NoPrior | None = None,
    looks: Sequence[int] = AA_LOOKS,
) -> Fitness:
    """UNFIT when equal arms differ by over half the design effect, or when the cap cannot beat the noise.

    Both are asked at each look. An objection that the blocks establish (5 % level) ends it; one that may be
    chance asks for more A/A blocks, and at the last look it stands. No objection: fit. Before the last look
    the noise must be beatable even at its upper 80 % bound: two quiet blocks may be luck.

    Raises:
        MisuseError: blocks that were not run in ABBA order, or looks that are not ascending counts from 2.
    """
    if not looks or looks[0] < 2 or any(a >= b for a, b in pairwise(looks)):
        raise MisuseError("not looks", key="judge_aa: looks", value=tuple(looks), expected="ascending counts from 2")
    valid, voided = sift(rule.void_rules, aa_blocks)
    limit = math.expm1(rule.effect_log / 2)
    state = Fitness(None, "", len(valid), None, limit, None, None, None, looks[0], voided)
    if len(voided) > rule.max_voids:
        return _end(state, Verdict.UNFIT, f"{len(voided)} A/A blocks are void, the last: {voided[-1].reason}")
    for number, block in enumerate(valid, start=1):
        if not (is_measured(block.baseline) and is_measured(block.candidate)):
            measured = f"{block.baseline!r} and {block.candidate!r}"
            return _end(state, Verdict.UNFIT, f"A/A block {number} measured {measured}")
    for n in looks:
        if n > len(valid):
            waiting = f"{len(valid)} valid A/A blocks, ask again at {n}"
            return replace(state, reason="; ".join(filter(None, (waiting, state.reason))), next_look=n)
        need_abba(valid[:n])
        state, objections = _look(rule, state, valid[:n], prior, is_last=n == looks[-1])
        if not objections:
            return _end(state, Verdict.PASS, f"fit: {state.reason}")
        if n == looks[-1] or any(objection.is_established for objection in objections):
            return _end(state, Verdict.UNFIT, state.reason)
    raise AssertionError("the last look always decides")


def _look(
    rule: Rule,
    state: Fitness,
    blocks: Sequence[Block],
    prior: NoisePrior | NoPrior | None,
    *,
    is_last: bool,
) -> tuple[Fitness, list[_Objection]]:
    n = len(blocks)
    ratios = [block.log_ratio for block in blocks]
    mean = math.fsum(ratios) / n
    # About zero, the truth of an A/A block: one degree of freedom more, and a drift counts as noise too.
    own_variance = math.fsum(d * d for d in ratios) / n
    if math.sqrt(own_variance) < LEAST_SD:
        text = f"{n} A/A blocks agree to nine digits: that is not a measurement"
        return replace(state, n=n, reason=text), [_Objection(text, True)]
    history = prior if isinstance(prior, NoisePrior) and prior.refusal(own_variance, n) is None else None
    history_df = history.df if history else 0
    df = n + history_df
    sd = math.sqrt((n * own_variance + history_df * (history.variance if history else 0.0)) / df)
    power = power_at_cap(rule, sd, history_df)
    figures = (
        f"after {n} A/A blocks equal arms differ by {math.expm1(mean):+.2%} (limit {state.drift_limit:.2%}), "
        f"noise of {sd:.2%} a block leaves {power:.0%} chance to see {rule.design_effect:.2%} "
        f"by block {rule.cap} ({rule.min_power:.0%} is needed)"
    )
    objections = []
    if abs(mean) > rule.effect_log / 2:
        chance = critical_t(_ESTABLISHED / 2, df) * sd / math.sqrt(n)
        objections.append(_Objection("drift", abs(mean) > chance))
    if power_at_cap(rule, sd if is_last else _sd_bound(sd, df, 1 - _DOUBT)) < rule.min_power:
        least_sd = _sd_bound(sd, df, _ESTABLISHED)
        objections.append(_Objection("noise", power_at_cap(rule, least_sd) < rule.min_power))
    reason = f"{' and '.join(o.text for o in objections)}: {figures}" if objections else figures
    seen = replace(
        state,
        reason=reason,
        n=n,
        drift=math.expm1(mean),
        sd_log=sd,
        power=power,
        order_effect=order_effect(blocks),
    )
    return seen, objections


def _sd_bound(sd: float, df: int, chance: float) -> float:
    """The true sd under which noise at least as large as ``sd`` has this chance (chi square)."""
    from scipy.special import chdtri

    return sd * math.sqrt(df / float(chdtri(df, chance)))


def _end(state: Fitness, verdict: Verdict, reason: str) -> Fitness:
    return replace(state, verdict=verdict, reason=reason, next_look=None)
