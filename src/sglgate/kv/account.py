"""Where every GiB of a card went, and what changed between two starts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sglgate.kv.observed import Observed, RankReadings

CUSTOM_ALL_REDUCE_GIB = 24 / 1024
"""Buffers of v1 custom all-reduce on a rank: meta + data, input copy and rank data of 8 MiB each
(0.5.9 ``distributed/device_communicators/custom_all_reduce.py``). They are allocated before the first
reading."""


@dataclass(frozen=True)
class Account:
    """One rank's card, GiB. What the log does not show is None; ``unlogged`` is the rest that no line
    accounts for."""

    rank: str
    total: float | None
    before_weights: float | None
    """Context, NCCL, other processes, and custom all-reduce where it is in use."""
    custom_all_reduce: float | None
    weights: float | None
    draft_weights: float | None
    target_pool: float | None
    draft_pool: float | None
    state_pool: float | None
    graphs: float | None
    unlogged: float | None
    left: float | None

    def to_json(self) -> dict[str, Any]:
        """All fields, rounded as printed."""
        return {key: round(value, 2) if isinstance(value, float) else value for key, value in asdict(self).items()}


@dataclass(frozen=True)
class Change:
    """One difference between two starts. ``pool_gib`` is what it takes from (< 0) or gives to the pool's
    budget."""

    what: str
    before: str
    after: str
    pool_gib: float | None = None


def account(rank: RankReadings, total_gib: float | None) -> Account:
    """Add up one rank."""
    target, draft = rank.pool("target"), rank.pool("draft")
    target_gib = None if target is None or target.size is None else target.size.nominal
    draft_gib = None if draft is None or draft.size is None else draft.size.nominal
    spent = (
        rank.target_weights_gib,
        rank.draft_weights_gib,
        target_gib,
        draft_gib,
        rank.state_gib,
        rank.graphs_gib,
        rank.left_gib,
    )
    unlogged = None
    if rank.pre_gib is not None and rank.left_gib is not None:
        unlogged = rank.pre_gib - sum(value or 0.0 for value in spent)
    return Account(
        rank=rank.rank,
        total=total_gib,
        before_weights=None if total_gib is None or rank.pre_gib is None else total_gib - rank.pre_gib,
        custom_all_reduce=CUSTOM_ALL_REDUCE_GIB if rank.custom_all_reduce else None,
        weights=rank.target_weights_gib,
        draft_weights=rank.draft_weights_gib,
        target_pool=target_gib,
        draft_pool=draft_gib,
        state_pool=rank.state_gib or None,
        graphs=rank.graphs_gib or None,
        unlogged=unlogged,
        left=rank.left_gib,
    )


def changes(after: Observed, before: Observed) -> tuple[Change, ...]:
    """What differs from ``before`` to ``after``, with the part of the pool's budget that each difference
    explains.

    The budget is ``pre * f - weights``, so that a GiB less before the start costs f GiB of pool, a GiB more
    of weights a whole one.
    """
    found: list[Change] = []
    new, old = _smallest(after), _smallest(before)
    f_new, f_old = after.fraction, before.fraction
    if new is not None and old is not None:
        found += _memory_changes(new, old, f_new, f_old)
    for key, word in (
        ("page_size", "page size"),
        ("kv_cache_dtype", "KV dtype"),
        ("dtype", "dtype"),
        ("tp_size", "tensor parallel size"),
        ("max_total_tokens", "max_total_tokens"),
        ("speculative_algorithm", "speculation"),
        ("context_length", "context length"),
    ):
        a, b = before.arguments.get(key), after.arguments.get(key)
        if before.arguments and after.arguments and a != b:
            found.append(Change(word, str(a), str(b)))
    if before.version and after.version and before.version != after.version:
        found.append(Change("SGLang", before.version, after.version))
    found += _cell_changes(after, before)
    return tuple(found)


def _memory_changes(new: RankReadings, old: RankReadings, f_new: float | None, f_old: float | None) -> list[Change]:
    found = []
    if new.pre_gib is not None and old.pre_gib is not None and abs(new.pre_gib - old.pre_gib) > 0.02:
        less = new.pre_gib < old.pre_gib
        why = "free before weights" + (" (a leftover process, or more before the start)" if less else "")
        fraction = f_new if f_new is not None else f_old
        worth = None if fraction is None else round(fraction * (new.pre_gib - old.pre_gib), 2)
        found.append(Change(why, f"{old.pre_gib:.2f} GiB", f"{new.pre_gib:.2f} GiB", worth))
    if f_new is not None and f_old is not None and f_new != f_old:
        worth = None if new.pre_gib is None else round((f_new - f_old) * new.pre_gib, 2)
        found.append(Change("mem_fraction_static", f"{f_old:g}", f"{f_new:g}", worth))
    for word, a, b in (
        ("weights", old.target_weights_gib, new.target_weights_gib),
        ("draft weights counted before sizing", _counted_draft(old), _counted_draft(new)),
    ):
        if a is not None and b is not None and abs(a - b) > 0.02:
            found.append(Change(word, f"{a:.2f} GiB", f"{b:.2f} GiB", round(a - b, 2)))
    return found


def _cell_changes(after: Observed, before: Observed) -> list[Change]:
    found = []
    for role in ("target", "draft"):
        a, b = _row(before, role), _row(after, role)
        # A pool of less than 5 MiB is printed as 0.00 GB: there is one, of unknown size.
        if a and b and abs(a - b) / a > 0.01:
            found.append(Change(f"bytes per token, {role}", f"{a:.0f}", f"{b:.0f}"))
        elif (a is None) != (b is None) and (after.ready or before.ready):
            words = {True: "none", False: "a pool"}
            found.append(Change(f"{role} pool", words[a is None], words[b is None]))
    return found


def _counted_draft(rank: RankReadings) -> float:
    return (rank.draft_weights_gib or 0.0) if rank.draft_before_sizing else 0.0


def _smallest(observed: Observed) -> RankReadings | None:
    known = [rank for rank in observed.ranks if rank.avail_gib is not None]
    return min(known, key=lambda rank: rank.avail_gib or 0.0) if known else None


def _row(observed: Observed, role: str) -> float | None:
    for rank in observed.ranks:
        pool = rank.pool(role)
        if pool is not None and pool.size is not None and pool.tokens:
            return pool.size.nominal * (1 << 30) / (pool.tokens + observed.page_size)
    return None
