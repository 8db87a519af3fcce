"""Fractions and pools: what one fraction gives, which fraction a need asks for, which fraction a pool
speaks of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sglgate.errors import MisuseError
from sglgate.kv.budget import (
    Interval,
    drift_gib,
    multimodal_reserve_gib,
    rank_spread_gib,
    rest_interval,
    unseen_gib,
)
from sglgate.kv.case import Case
from sglgate.kv.defaults import Default, default_fraction
from sglgate.kv.sizing import Pool

# Context, NCCL and the like before the first weight, as public logs show it on cards of 22 to 180 GiB.
_CONTEXT_GIB = (0.4, 2.5)


def memory(case: Case) -> tuple[Interval | None, Interval | None, tuple[str, ...]]:
    """``pre`` and ``avail`` as intervals, and what was assumed for them. None where nothing is known.

    Raises:
        MisuseError: more memory free after the weights than before.
    """
    asked = case.question
    notes: list[str] = []
    half = asked.rounding_gib
    pre = _around(asked.pre_gib, half)
    if pre is None and asked.gpu_total_mib is not None:
        total = asked.gpu_total_mib / 1024
        low, high = _CONTEXT_GIB
        pre = Interval(total - high, total - (low + high) / 2, total - low)
        notes.append(
            f"free memory before weights is taken as the card less {low} to {high} GiB (context, NCCL); read "
            f'"Load weight begin" for the real figure'
        )
    avail = _around(asked.avail_gib, half)
    if avail is None and pre is not None and asked.weights_gib is not None:
        avail = Interval(pre.low - asked.weights_gib, pre.nominal - asked.weights_gib, pre.high - asked.weights_gib)
        notes.append("free memory after weights is taken as that before them less weights_gib")
    on_cpu = asked.device == "cpu"  # where other processes give memory back in between
    if pre is not None and avail is not None and avail.low > pre.high and not on_cpu:
        raise MisuseError(
            f"more is free after the weights than before them ({asked.pre_gib} GiB)",
            key="avail_gib",
            value=asked.avail_gib,
            expected='pre_gib is "Load weight begin", avail_gib "Load weight end"',
        )
    return pre, avail, tuple(notes)


def fraction_of(case: Case) -> tuple[float | None, Default | None, tuple[str, ...]]:
    """The fraction in force: the asked one, else the release's default on this card; and that default."""
    default = default_fraction(case.question, case.rules, case.geometry, case.config)
    asked = case.question.mem_fraction_static
    if asked is not None:
        return asked, default, ()
    if default is None:
        return (
            None,
            None,
            ("neither mem_fraction_static nor gpu_total_mib is given: no fraction to predict with",),
        )
    note = f"mem_fraction_static is not set; the default of {case.rules.read_in} here is {default.high:.3f}"
    if default.low != default.high:
        note += f" ({default.low:.3f} if prefill CUDA graphs are captured)"
    return default.high, default, (f"{note} ({default.why})",)


def pools(case: Case, fraction: float, pre: Interval, avail: Interval) -> tuple[Interval, Pool, Pool, Pool]:
    """The budget of one fraction and the pools at its low end, nominal value and high end."""
    rest = rest_interval(
        case.question,
        fraction,
        pre,
        avail,
        unseen_gib(case.question, case.rules, case.geometry),
        multimodal_reserve_gib(case.rules, case.geometry),
    )
    sizing = case.sizing
    # Where an fp4 recipe leaves the cell open, the wider cell belongs to the low end.
    widest = replace(sizing.cell, sizing=sizing.cell.sizing_max)
    low, high = replace(sizing, cell=widest).pool(rest.low), sizing.pool(rest.high)
    # A budget that reaches one more state slot has that much less for KV: tokens climb as a sawtooth, so
    # that the extremes of an interval may lie inside it.
    tooth = _tokens_of_a_slot(case, low)
    return (
        rest,
        replace(low, tokens=max(0, low.tokens - tooth)),
        sizing.pool(rest.nominal),
        replace(high, tokens=high.tokens + tooth if high.tokens > 0 else high.tokens),
    )


def _tokens_of_a_slot(case: Case, pool: Pool) -> int:
    question = case.question
    fixed = question.max_mamba_cache_size is not None or question.disable_radix_cache
    if pool.state is None or fixed or question.exact_readings:
        return 0
    draft_tokens = question.draft.num_draft_tokens if question.draft is not None else 0
    page = question.page_size
    return (int(pool.state.bytes_per_slot * (1 + draft_tokens) / case.sizing.cell.sizing) // page + 1) * page


def fraction_for(case: Case, pre: Interval, avail: Interval, tokens: int, *, certain: bool = True) -> float | None:
    """The smallest fraction, to three decimals, whose pool holds ``tokens``; None if not even 0.999 does.

    Args:
        case: a modelled case.
        pre: free before weights.
        avail: free after them.
        tokens: what must fit.
        certain: at the low end of the interval, else by the figures as they stand.
    """

    def holds(fraction: float) -> bool:
        _, low, nominal, _ = pools(case, fraction, pre, avail)
        return (low if certain else nominal).tokens >= tokens

    return smallest_fraction(holds)


def smallest_fraction(holds: Callable[[float], bool]) -> float | None:
    """The smallest of 0.001 ... 0.999 for which ``holds`` is true, by halving: pools never shrink as the
    fraction grows."""
    low, high = 1, 999
    if not holds(high / 1000):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle / 1000) else (middle + 1, high)
    return low / 1000


def implied_by_tokens(case: Case, pre: Interval, avail: Interval, tokens: int) -> Interval | None:
    """The fractions whose pool, uncapped, has exactly this many tokens: what the pool says about the flag.

    None where no fraction has, and where the pool is the cap: it would be the same for any larger fraction.
    """
    cap, page = case.question.max_total_tokens, case.question.page_size
    if cap is not None and tokens >= cap // page * page:
        return None
    uncapped = case.question.model_copy(update={"max_total_tokens": None})
    sizing = replace(case.sizing, question=uncapped)

    def rest_for(goal: int) -> float:
        low, high = 0.0, pre.high
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if sizing.pool(middle).tokens >= goal else (middle, high)
        return high

    need, over = rest_for(tokens), rest_for(tokens + case.question.page_size)
    if sizing.pool(need).tokens < tokens:
        return None
    reserve = multimodal_reserve_gib(case.rules, case.geometry)
    unseen = unseen_gib(case.question, case.rules, case.geometry)
    spread, drift = rank_spread_gib(case.question), drift_gib(case.question)
    return Interval(
        1 - (avail.high + drift - need - reserve) / (pre.low - spread),
        1 - (avail.nominal - need - reserve) / pre.nominal,
        1 - (avail.low - over - reserve - unseen - spread - drift) / pre.high,
    )


def _around(value: float | None, half: float) -> Interval | None:
    return None if value is None else Interval(value - half, value, value + half)
