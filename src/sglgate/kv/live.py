"""The KV pools of a running server, as its log and its ``/server_info`` tell them: pure readings, no judgement.

A figure that is not there raises: a pool that cannot be read must never look like one that is right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sglgate.errors import SglgateError
from sglgate.kv.observed import observe
from sglgate.logs.record import KvPool, StartupRecord


class KvReadingError(SglgateError):
    """The log or the server does not state a figure that it must state."""


@dataclass(frozen=True)
class RankPool:
    """What one rank allocated for the target model."""

    rank: str
    tokens: int
    size_gib: float | None
    dtype: str | None


def expected_ranks(info: Mapping[str, Any]) -> int:
    """How many scheduler processes print a pool: TP x PP (DP attention lies inside TP; ``dp_size`` replicates)."""
    ranks = int(info["tp_size"]) * int(info["pp_size"])
    return ranks if info.get("enable_dp_attention") else ranks * int(info["dp_size"])


def target_pools(record: StartupRecord) -> list[RankPool]:
    """The target model's pool of every rank that printed one.

    Raises:
        KvReadingError: no rank printed one, or a rank's line has a format that is not known.
    """
    if unknown := [u for u in record.unknown_formats if u.kind == "kv_pool"]:
        raise KvReadingError(f"log line {unknown[0].line} has an unknown KV format: {unknown[0].text[:160]}")
    pools = [(rank.rank, pool) for rank in record.ranks.values() if (pool := _target(rank.kv_pools)) is not None]
    if not pools:
        raise KvReadingError("the log has no KV line on any rank: nothing shows that a pool was allocated")
    return [RankPool(rank, pool.tokens, pool.size_gib, pool.dtype) for rank, pool in pools]


def _target(pools: list[KvPool]) -> KvPool | None:
    # A sliding-window model prints two pools: the full layers' one is the capacity.
    own = [pool for pool in pools if pool.role == "target" and pool.layers != "swa"]
    return own[0] if own else None


def capacity_figures(record: StartupRecord, info: Mapping[str, Any]) -> dict[str, int]:
    """The same capacity, in tokens, from the places that state it.

    Raises:
        KvReadingError: one of them does not.
    """
    figures: dict[str, int | None] = {
        "/server_info max_total_num_tokens": info.get("max_total_num_tokens"),
        "/server_info token_capacity": _token_capacity(info),
        "log summary max_total_num_tokens": record.summaries[0].max_total_num_tokens if record.summaries else None,
        "log KV line #tokens": min(pool.tokens for pool in target_pools(record)),
    }
    if missing := [name for name, value in figures.items() if value is None]:
        raise KvReadingError(f"not stated: {', '.join(missing)}")
    return {name: int(value) for name, value in figures.items() if value is not None}


def _token_capacity(info: Mapping[str, Any]) -> int | None:
    states = info.get("internal_states") or []
    capacities = [state.get("memory_usage", {}).get("token_capacity") for state in states]
    return min(capacities) if capacities and None not in capacities else None


def bytes_per_token_range(pool: RankPool, page_size: int) -> tuple[float, float]:
    """Smallest and largest bytes per token that print as this pool's size.

    The tensors hold ``tokens + page_size`` rows. K and V are each printed to 0.01 GiB, so their sum is off by at most
    0.01 GiB either way.

    Raises:
        KvReadingError: the line has no size.
    """
    if pool.size_gib is None:
        raise KvReadingError(f"rank {pool.rank or 'TP0'} prints no size of its pool")
    rows = pool.tokens + page_size
    return max(0.0, pool.size_gib - 0.01) * 2**30 / rows, (pool.size_gib + 0.01) * 2**30 / rows


def starting_fraction(record: StartupRecord) -> float:
    """The memory fraction above which this start would just have had a pool: 1 - free at sizing / free before weights.

    What was free when the pool was sized is never printed; it is what was left after the pool, plus the pool. The
    rank with least decides. Source of the formula: docs/kv.md.

    Raises:
        KvReadingError: a rank does not state the figures.
    """
    fractions = []
    for rank in observe(record).ranks:
        pool = rank.pool("target")
        if rank.pre_gib is None or rank.after_target_pool_gib is None or pool is None or pool.size is None:
            raise KvReadingError(f"rank {rank.rank or 'TP0'} does not state the memory before and after its pool")
        fractions.append(1 - (rank.after_target_pool_gib + pool.size.nominal) / rank.pre_gib)
    return max(fractions)
