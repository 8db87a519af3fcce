"""Why a KV pool changed, in GiB and tokens; which changed default, which lost path stands behind a difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sglgate.evidence import Verdict
from sglgate.kv.account import changes
from sglgate.kv.observed import Observed, PoolLine, RankReadings
from sglgate.kv.versions import parse_release, rules_for
from sglgate.resolved import Difference
from sglgate.signoff.join import Item, Kind

_GIB = 1 << 30
#: Between distant releases dozens of defaults change: an item names so many, its candidate's table all.
_NAMED = 4


@dataclass(frozen=True)
class KvCause:
    """One cause of a changed pool; ``gib`` is what it gave to (> 0) or took from the target's pool, None: not sized."""

    text: str
    gib: float | None


@dataclass(frozen=True)
class KvAttribution:
    """The target's pool of one candidate in both runs, on the rank with the smallest pool."""

    candidate: str
    old_tokens: int
    new_tokens: int
    old_gib: float | None
    new_gib: float | None
    bytes_per_token: float | None
    causes: tuple[KvCause, ...]

    @property
    def unexplained_gib(self) -> float | None:
        """What the sized causes leave over."""
        if self.old_gib is None or self.new_gib is None:
            return None
        return self.new_gib - self.old_gib - sum(cause.gib or 0.0 for cause in self.causes)

    def lines(self) -> tuple[str, ...]:
        """The causes in words, largest first, then what is left over."""
        sized = sorted(self.causes, key=lambda cause: -abs(cause.gib or 0.0))
        rest = self.unexplained_gib
        words = tuple(cause.text + (f": {self._amount(cause.gib)}" if cause.gib is not None else "") for cause in sized)
        return words + ((f"not accounted for: {self._amount(rest)}",) if rest is not None and abs(rest) > 0.02 else ())

    def _amount(self, gib: float) -> str:
        tokens = f", {gib * _GIB / self.bytes_per_token:+,.0f} tokens" if self.bytes_per_token else ""
        return f"{gib:+.2f} GiB{tokens}"


def attribute_kv(
    candidate: str, old: Observed, new: Observed, old_version: str, new_version: str
) -> KvAttribution | None:
    """Account for a changed pool from both logs; None where one of them shows no pool.

    From SGLang 0.5.14 on the draft's KV layers are paid for out of the same budget (:mod:`sglgate.kv.versions`): its
    pool is then taken from the target's.
    """
    a, b = _smallest(old), _smallest(new)
    if a is None or b is None:
        return None
    (old_rank, old_pool), (new_rank, new_pool) = a, b
    causes = [
        KvCause(f"{one.what} {one.before} -> {one.after}", one.pool_gib)
        for one in changes(new, old)
        if one.what != "SGLang" and not one.what.startswith("draft pool")
    ]
    counted = [_counts_draft(version) for version in (old_version, new_version)]
    was, now = (_draft_gib(rank) if counts else 0.0 for rank, counts in zip((old_rank, new_rank), counted, strict=True))
    if counted[0] != counted[1] and (was or now):
        causes.append(
            KvCause(
                f"draft accounting: SGLang {new_version} "
                + ("pays the draft's KV layers out of the pool's budget" if counted[1] else "leaves the draft's KV out")
                + f", {old_version} did " + ("not" if counted[1] else "count them"),
                was - now,
            )
        )  # fmt: skip
    elif abs(was - now) > 0.02:
        causes.append(KvCause("the draft's pool, which shares the budget", was - now))
    size = new_pool.size.nominal if new_pool.size else None
    return KvAttribution(
        candidate,
        old_pool.tokens,
        new_pool.tokens,
        old_pool.size.nominal if old_pool.size else None,
        size,
        size * _GIB / new_pool.tokens if size and new_pool.tokens else None,
        tuple(causes),
    )


def explain(
    items: Sequence[Item],
    kv: Sequence[KvAttribution],
    defaults: dict[str, list[Difference]],
    packages: Sequence[Difference],
) -> list[Item]:
    """The items with the causes that are known for them; for harm without one, what is left to suspect."""
    by_candidate = {one.candidate: one for one in kv}
    found = []
    for item in items:
        causes: tuple[str, ...] = ()
        account = by_candidate.get(item.candidate)
        if account is not None and item.kind in (Kind.REGRESSION, Kind.GAIN) and item.suite == "kv":
            # Other pools of the candidate, of launches at another fraction, are not what is accounted for.
            causes += account.lines() if item.old in (str(account.old_tokens), *Verdict) else ()
        if item.kind in (Kind.REGRESSION, Kind.PATH_LOST, Kind.NEW_AND_RED, Kind.ANSWERS_CHANGED):
            causes += _changed(defaults.get(item.candidate, []))
            causes = causes or (_suspects(packages),)
        found.append(replace(item, causes=causes))
    return found


def _changed(arguments: Sequence[Difference]) -> tuple[str, ...]:
    """Arguments that the release resolved differently; those that were asked for alike come first."""
    found = [one for note in ("asked alike, overruled", "default changed") for one in arguments if one.note == note]
    named = tuple(f"{one.note}: {one.name} {one.old} -> {one.new}" for one in found[:_NAMED])
    more = len(found) - _NAMED
    return (*named, f"{more} more among the candidate's resolved arguments") if more > 0 else named


def _suspects(packages: Sequence[Difference]) -> str:
    if not packages:
        return "no argument, default or package differs: the machine, or a change that no version shows"
    named = ", ".join(f"{one.name} {one.old} -> {one.new}" for one in packages[:3])
    more = f" and {len(packages) - 3} more" if len(packages) > 3 else ""
    return f"no argument or default differs; what does is software: {named}{more}"


def _counts_draft(version: str) -> bool:
    return bool(version) and rules_for(".".join(map(str, parse_release(version)))).draft_counted


def _smallest(observed: Observed) -> tuple[RankReadings, PoolLine] | None:
    found = [(rank, pool) for rank in observed.ranks if (pool := rank.pool("target")) is not None]
    return min(found, key=lambda pair: pair[1].tokens) if found else None


def _draft_gib(rank: RankReadings) -> float:
    pool = rank.pool("draft")
    return pool.size.nominal if pool is not None and pool.size is not None else 0.0
