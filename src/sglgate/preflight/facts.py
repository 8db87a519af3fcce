"""The facts of one node, as bringup found them: what a profile can pin, and what later runs are held against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from sglgate.config import Profile
from sglgate.errors import MisuseError
from sglgate.node.facts import Card, Nvml, ProbeAnswer
from sglgate.node.source import NodeSource
from sglgate.preflight.check import Check, count

#: A pair may carry this share of its pinned bandwidth and still count as the same.
PEER_SHARE: Final = 0.8
#: Cards of one kind differ by a few percent; a clock below this share of the pinned one is another machine.
CLOCK_SHARE: Final = 0.95


@dataclass(frozen=True)
class PinnedCard:
    """What a card was."""

    index: int
    name: str
    uuid: str
    bus_id: str
    vbios: str | None
    ecc: bool | None
    power_limit_w: float | None


_PINNED: Final = tuple(one.name for one in fields(PinnedCard))


@dataclass(frozen=True)
class NodeFacts:
    """The file. ``loaded_sm_mhz`` is the slowest GPU's median clock under the load of preflight."""

    profile: str
    at: str
    kernel: str
    driver: str | None = None
    cards: tuple[PinnedCard, ...] = ()
    loaded_sm_mhz: float | None = None
    peer_gb_per_s: dict[str, float] = field(default_factory=dict)


def read_node_facts(profile: Profile) -> NodeFacts | None:
    """The facts that a profile pins; None where it pins none.

    Raises:
        MisuseError: the file is absent or no facts file.
    """
    if profile.preflight.node_facts is None:
        return None
    path = Path(profile.preflight.node_facts).expanduser()
    try:
        return TypeAdapter(NodeFacts).validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MisuseError(f"cannot be read: {error.strerror}", file=path, key="preflight.node_facts") from None
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"]))
        raise MisuseError(f"no facts file: {where}: {problem['msg']}", file=path, key="preflight.node_facts") from None


def facts_of(
    source: NodeSource, profile: Profile, at: str, nvml: Nvml | None, loaded: ProbeAnswer, peers: ProbeAnswer | None
) -> NodeFacts:
    """The facts of a node that has passed preflight."""
    cards = nvml.gpus[: profile.machine.gpus] if nvml else []
    pairs = (peers.result or {}).get("pairs", {}) if peers else {}
    return NodeFacts(
        profile=profile.name,
        at=at,
        kernel=(source.text("/proc/sys/kernel/osrelease") or "unknown").strip(),
        driver=nvml.driver if nvml else None,
        cards=tuple(_pinned(card) for card in cards),
        loaded_sm_mhz=_slowest_mhz(loaded),
        peer_gb_per_s={name: pair["gb_per_s"] for name, pair in pairs.items() if pair.get("gb_per_s") is not None},
    )


def as_pinned(pinned: NodeFacts, now: NodeFacts) -> Check:
    """Nothing that the facts file holds has changed: no card swapped, no driver moved, nothing slower than it was."""
    problems = []
    if now.driver != pinned.driver:
        problems.append(f"driver {now.driver}, pinned {pinned.driver}")
    present = {card.index: card for card in now.cards}
    for card in pinned.cards:
        other = present.get(card.index)
        if other is None:
            problems.append(f"GPU {card.index} is gone")
        elif other != card:
            differing = [name for name in _PINNED if getattr(other, name) != getattr(card, name)]
            texts = [f"{name} {getattr(other, name)}, pinned {getattr(card, name)}" for name in differing]
            problems.append(f"GPU {card.index}: {'; '.join(texts)}")
    if pinned.loaded_sm_mhz and (now.loaded_sm_mhz or 0) < CLOCK_SHARE * pinned.loaded_sm_mhz:
        problems.append(f"clock under load {now.loaded_sm_mhz} MHz, pinned {pinned.loaded_sm_mhz:g}")
    for name, speed in pinned.peer_gb_per_s.items():
        if now.peer_gb_per_s.get(name, 0.0) < PEER_SHARE * speed:
            problems.append(f"{name}: {now.peer_gb_per_s.get(name)} GB/s, pinned {speed}")
    remedy = "find out what was changed; if it is meant, `sglgate bringup` writes new facts and baselines start anew"
    return count("facts that no longer hold", problems, remedy, n=max(1, len(pinned.cards)))


def _pinned(card: Card) -> PinnedCard:
    return PinnedCard(**{name: getattr(card, name) for name in _PINNED})


def _slowest_mhz(loaded: ProbeAnswer) -> float | None:
    clocks: Sequence[float] = [one.sm_mhz for one in loaded.under_load.values() if one.sm_mhz is not None]
    return min(clocks, default=None)
