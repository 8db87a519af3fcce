"""Whether two launches of one candidate allocated the same pool, and whether a pool holds what a candidate
needs."""

from __future__ import annotations

from dataclasses import dataclass

from sglgate.kv.budget import CPU_DRIFT_GIB, GIB
from sglgate.kv.observed import Observed, RankReadings, observe
from sglgate.logs import StartupRecord

_ROUNDING_GIB = 0.02
"""Four figures of two decimals, two in each launch."""


@dataclass(frozen=True)
class Agreement:
    """One rank's pool in two launches. ``allowed`` is the difference in tokens that their own readings
    account for."""

    rank: str
    role: str
    first: int
    second: int
    allowed: int

    @property
    def agrees(self) -> bool:
        """Whether the two pools differ by no more than their readings do."""
        return abs(self.first - self.second) <= self.allowed


def launches_agree(first: StartupRecord, second: StartupRecord) -> tuple[Agreement, ...]:
    """Compare two launches rank by rank, target and draft apart.

    Free memory at the start may differ between launches; a pool may then differ by what the formula makes
    of it, and by rounding, but by nothing else. A rank or pool that only one launch shows is a difference
    of all its tokens.
    """
    before, after = observe(first), observe(second)
    ranks = {rank.rank: rank for rank in before.ranks}, {rank.rank: rank for rank in after.ranks}
    found = []
    for name in sorted(ranks[0].keys() | ranks[1].keys()):
        one, other = ranks[0].get(name), ranks[1].get(name)
        for role in ("target", "draft"):
            tokens = tuple(_tokens(rank, role) for rank in (one, other))
            if tokens != (0, 0):
                allowed = _allowed(before, one, other) if one is not None and other is not None else 0
                found.append(Agreement(name, role, tokens[0], tokens[1], allowed))
    return tuple(found)


def shortfall(record: StartupRecord, min_tokens: int | None, requests: int = 0, request_tokens: int = 0) -> int:
    """Tokens that the smallest target pool lacks for what a candidate declares; 0 when it holds it.

    Args:
        record: a finished start.
        min_tokens: ``expect.kv.min_tokens``.
        requests: requests that must fit at once.
        request_tokens: length of each.
    """
    pools = [rank.pool("target") for rank in observe(record).ranks]
    smallest = min((pool.tokens for pool in pools if pool is not None), default=0)
    return max(0, max(min_tokens or 0, requests * request_tokens) - smallest)


def _tokens(rank: RankReadings | None, role: str) -> int:
    pool = None if rank is None else rank.pool(role)
    return 0 if pool is None else pool.tokens


def _allowed(observed: Observed, one: RankReadings, other: RankReadings) -> int:
    target = one.pool("target")
    if target is None or target.size is None or not target.tokens:
        return 0
    if observed.max_total_num_tokens == observed.arguments.get("max_total_tokens"):
        return 0  # a cap decides, not memory
    per_token = target.size.nominal * GIB / target.tokens
    moved = _ROUNDING_GIB + (CPU_DRIFT_GIB if observed.on_cpu else 0.0)
    if one.avail_gib is not None and other.avail_gib is not None:
        moved += abs(one.avail_gib - other.avail_gib)
    if one.pre_gib is not None and other.pre_gib is not None:
        moved += abs(one.pre_gib - other.pre_gib) * (1 - (observed.fraction or 0.0))
    return int(moved * GIB / per_token) + observed.page_size
