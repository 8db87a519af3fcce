"""The map of a card: where its memory went, rank by rank, and where the arithmetic said that it would go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sglgate.evidence import Evidence, Number
from sglgate.report.figures import Lenient, read
from sglgate.report.pictures.bars import Part, bar

_GIB = 2**30
_NAMES = {
    "before_weights": "before the weights",
    "weights": "weights",
    "draft_weights": "draft's weights",
    "state_pool": "state pool",
    "target_pool": "KV, target",
    "draft_pool": "KV, draft",
    "graphs": "graphs",
    "unlogged": "not in the log",
    "left": "free",
}
_POOLS = {"target": "target_pool", "draft": "draft_pool"}


class _Rank(Lenient):
    rank: str
    total: Number | None
    before_weights: Number | None
    weights: Number | None
    draft_weights: Number | None
    state_pool: Number | None
    target_pool: Number | None
    draft_pool: Number | None
    graphs: Number | None
    unlogged: Number | None
    left: Number | None

    def gib(self, name: str) -> float:
        """One of the parts; 0 where it is not known, or where the log's figures overlap."""
        return max(0.0, getattr(self, name) or 0.0)


class _Memory(Lenient):
    memory_gib: tuple[_Rank, ...]


class _Predicted(Lenient):
    rank: str
    role: str
    tokens_min: int | None
    tokens_max: int | None
    bytes_per_token: Number | None


@dataclass(frozen=True)
class RankMap:
    """One rank: the bars of what was seen and what was predicted (empty where nothing was), and the figures of both.

    ``tokens`` has, for each role of the map, the tokens seen, the least and most predicted, and the verdict.
    """

    rank: str
    seen: str
    predicted: str
    gib: tuple[float | None, ...]
    tokens: tuple[tuple[object, int | None, int | None, str] | None, ...]


@dataclass(frozen=True)
class MemoryMap:
    """A candidate's ranks. ``parts``: the places and names of the parts that any of them has; ``roles``: its pools."""

    candidate: str
    parts: tuple[tuple[int, str], ...]
    roles: tuple[str, ...]
    ranks: tuple[RankMap, ...]


def memory_maps(evidence: Sequence[Evidence]) -> list[MemoryMap]:
    """One map a candidate whose pools were read."""
    found = []
    for e in evidence:
        if (e.suite, e.gate) != ("kv", "allocated_on_every_rank") or (seen := read(_Memory, e)) is None:
            continue
        pools = [
            (p, record)
            for record in evidence
            if (record.suite, record.gate, record.candidate) == ("kv", "predicted", e.candidate)
            and (p := read(_Predicted, record)) is not None
            and p.role in _POOLS
        ]
        names = [name for name in _NAMES if any(rank.gib(name) for rank in seen.memory_gib)]
        places = {name: place for place, name in enumerate(_NAMES)}
        roles = tuple(role for role in _POOLS if any(p.role == role for p, _ in pools))
        maps = tuple(
            _map(rank, names, places, roles, [p for p in pools if p[0].rank == rank.rank]) for rank in seen.memory_gib
        )
        if names:
            found.append(MemoryMap(e.candidate, tuple((places[name], _NAMES[name]) for name in names), roles, maps))
    return found


def _map(
    rank: _Rank,
    names: Sequence[str],
    places: dict[str, int],
    roles: Sequence[str],
    pools: Sequence[tuple[_Predicted, Evidence]],
) -> RankMap:
    parts = [Part(places[name], _NAMES[name], rank.gib(name)) for name in names]
    whole = max(rank.total or 0.0, sum(part.amount for part in parts))
    title = rank.rank or "rank 0"
    spans = {_POOLS[p.role]: span for p, _ in pools if (span := _span_gib(p)) is not None}
    tokens = {p.role: (e.value, p.tokens_min, p.tokens_max, str(e.verdict)) for p, e in pools}
    predicted = ""
    if spans:
        replaced: list[Part] = []
        for name, part in zip(names, parts, strict=True):
            low, high = spans.get(name, (part.amount, part.amount))
            replaced += [Part(part.place, part.name, low), Part(part.place, part.name, high - low, is_open=True)]
        predicted = bar(f"{title}, predicted: {_in_words(replaced)}", replaced, whole)
    return RankMap(
        title,
        bar(f"{title}, seen: {_in_words(parts)}", parts, whole),
        predicted,
        tuple(getattr(rank, name) for name in names),
        tuple(tokens.get(role) for role in roles),
    )


def _span_gib(p: _Predicted) -> tuple[float, float] | None:
    if p.tokens_min is None or p.tokens_max is None or not p.bytes_per_token:
        return None
    return p.tokens_min * p.bytes_per_token / _GIB, p.tokens_max * p.bytes_per_token / _GIB


def _in_words(parts: Sequence[Part]) -> str:
    return ", ".join(
        f"{part.name} {'up to ' if part.is_open else ''}{part.amount:.2f} GiB{' more' if part.is_open else ''}"
        for part in parts
        if part.amount > 0
    )
