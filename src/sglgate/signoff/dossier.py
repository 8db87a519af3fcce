"""The whole comparison and its verdict: may this release go onto this machine?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from sglgate.errors import MisuseError, nearest
from sglgate.resolved import Difference
from sglgate.run import now
from sglgate.signoff import differences
from sglgate.signoff.attribution import KvAttribution, attribute_kv, explain
from sglgate.signoff.join import BLOCKING, LACKING, MARGIN, Item, Kind, Row, join
from sglgate.signoff.side import Side

DOSSIER = "dossier.json"


class Decision(StrEnum):
    """What the dossier says."""

    GO = "GO"
    NO_GO = "NO-GO"
    NOT_ENOUGH = "NOT ENOUGH EVIDENCE"


@dataclass(frozen=True)
class Acceptance:
    """A person takes one item upon themselves."""

    id: str
    who: str
    why: str
    at: str


@dataclass(frozen=True)
class Dossier:
    """``doubts`` are what keeps two runs from being compared at all; no acceptance removes one."""

    old: Side
    new: Side
    margin: float
    items: tuple[Item, ...]
    rows: tuple[Row, ...]
    doubts: tuple[str, ...]
    packages: tuple[Difference, ...]
    machines: tuple[Difference, ...]
    arguments: Mapping[str, Sequence[Difference]]
    kv: tuple[KvAttribution, ...]
    acceptances: Mapping[str, Acceptance]

    def open_items(self, kinds: frozenset[Kind]) -> list[Item]:
        """Items of these kinds that nobody has accepted."""
        return [item for item in self.items if item.kind in kinds and item.id not in self.acceptances]

    @property
    def decision(self) -> Decision:
        """A known harm outweighs a lack of evidence."""
        if self.open_items(BLOCKING):
            return Decision.NO_GO
        return Decision.NOT_ENOUGH if self.doubts or self.open_items(LACKING) else Decision.GO

    @property
    def lead(self) -> str:
        """The sentence under the verdict."""
        parts = []
        for kinds, word in ((BLOCKING, "to fix or accept"), (LACKING, "without evidence")):
            count = len(self.open_items(kinds))
            if count:
                parts.append(f"{count} {word}")
        if self.doubts:
            parts.append(f"{len(self.doubts)} reasons why the runs cannot be compared as they are")
        if self.acceptances:
            parts.append(f"{len(self.acceptances)} accepted")
        return ", ".join(parts) or "no gate is worse, none is missing"

    def to_json(self) -> dict[str, Any]:
        """Everything a program needs; ``items`` carry their ids."""
        sides = (("from", self.old), ("to", self.new))
        return {
            "decision": self.decision,
            "lead": self.lead,
            "margin": self.margin,
            **{
                name: {"run": s.info.name, "sglang": s.sglang, "stack": s.info.stack.get("digest", "")}
                for name, s in sides
            },
            "doubts": list(self.doubts),
            "items": [
                {"id": item.id, **asdict(item), "accepted": asdict(a) if (a := self.acceptances.get(item.id)) else None}
                for item in self.items
            ],
            "metrics": [
                {
                    **dict(zip(("candidate", "suite", "gate", "metric"), row.key, strict=True)),
                    "unit": row.unit,
                    "from": row.old.model_dump(mode="json", include={"value", "interval", "verdict", "n"}),
                    "to": row.new.model_dump(mode="json", include={"value", "interval", "verdict", "n"}),
                    "change": asdict(row.change) if row.change else None,
                }
                for row in self.rows
            ],
            "kv": [{**asdict(one), "unexplained_gib": one.unexplained_gib} for one in self.kv],
            "packages": [asdict(one) for one in self.packages],
            "machines": [asdict(one) for one in self.machines],
            "arguments": {name: [asdict(one) for one in found] for name, found in self.arguments.items()},
        }


def build(old: Side, new: Side, acceptances: Mapping[str, Acceptance] | None = None, margin: float = MARGIN) -> Dossier:
    """Compare two runs.

    Raises:
        MisuseError: they are of different profiles.
    """
    if old.info.profile != new.info.profile:
        raise MisuseError(
            f"the runs are of the profiles {old.info.profile!r} and {new.info.profile!r}",
            key="--to",
            value=new.info.name,
            expected="two runs of one profile",
        )
    items, rows = join(old, new, margin)
    shared = [name for name in old.info.candidates if name in new.info.candidates]
    arguments = {name: found for name in shared if (found := differences.arguments(old, new, name))}
    packages = differences.packages(old, new)
    kv = tuple(account for name in shared if (account := _account(old, new, name)) is not None)
    return Dossier(
        old,
        new,
        margin,
        tuple(explain(items, kv, arguments, packages)),
        tuple(rows),
        tuple(_doubts(old, new)),
        tuple(packages),
        tuple(differences.machines(old, new)),
        arguments,
        kv,
        dict(acceptances or {}),
    )


def _account(old: Side, new: Side, candidate: str) -> KvAttribution | None:
    before, after = old.start(candidate), new.start(candidate)
    if before is None or after is None:
        return None
    account = attribute_kv(candidate, before, after, old.sglang, new.sglang)
    return account if account is not None and account.old_tokens != account.new_tokens else None


def _doubts(old: Side, new: Side) -> list[str]:
    found = []
    for side in (old, new):
        if side.info.finished is None:
            found.append(f"the run {side.info.name} did not end")
        if not side.evidence:
            found.append(f"the run {side.info.name} holds no evidence")
    for one in differences.question(old, new):
        found.append(f"{one.note}: {one.name}: {one.old[:200]} against {one.new[:200]}")
    return found


def accept(dossier: Dossier, item_id: str, *, who: str, why: str) -> Acceptance:
    """Accept one item.

    Raises:
        MisuseError: no such item, one that needs no acceptance, or nobody and no reason named.
    """
    known = {item.id: item for item in dossier.items if item.kind in BLOCKING | LACKING}
    if item_id not in known:
        near = nearest(item_id, known)
        raise MisuseError(
            "no such item to accept",
            key="--accept",
            value=item_id,
            expected=f"did you mean {near!r}?" if near else f"known: {', '.join(known) or 'none'}",
        )
    for key, value in (("--who", who), ("--why", why)):
        if not value.strip():
            raise MisuseError("an acceptance needs one", key=key, expected="a name, a sentence")
    return Acceptance(item_id, who, why, now())


def kept_acceptances(folder: Path, old: Side, new: Side) -> dict[str, Acceptance]:
    """Those of the dossier that is in ``folder`` already; none where there is no dossier.

    Raises:
        MisuseError: it is about two other runs, or no dossier.
    """
    path = folder / DOSSIER
    if not path.exists():
        return {}
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        names = (data["from"]["run"], data["to"]["run"])
        kept = {item["id"]: Acceptance(**item["accepted"]) for item in data["items"] if item["accepted"]}
    except (OSError, ValueError, KeyError, TypeError):
        raise MisuseError("not a dossier", file=path, expected="another --out") from None
    if names != (old.info.name, new.info.name):
        raise MisuseError(f"the dossier of {names[0]} and {names[1]} is here", file=path, expected="another --out")
    return kept
