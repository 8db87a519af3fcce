"""Every launch of a run: its start-up phases, and what the machine did until the next one."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sglgate.evidence import Evidence, number
from sglgate.report.figures import Lenient, read
from sglgate.report.pictures.bars import Part, bar
from sglgate.report.telemetry import Lane, Telemetry
from sglgate.run import RunInfo


@dataclass(frozen=True)
class Launch:
    """One launch. ``total_s`` is None and ``bar`` empty where it did not come up."""

    candidate: str
    log: str
    problem: str
    is_expected: bool
    """Whether its candidate declares that it must fail."""
    total_s: float | None
    bar: str
    phases: tuple[tuple[int, str, float], ...]
    """Place in the legend, name, seconds."""
    block: str
    began: str
    lanes: tuple[Lane, ...]


class _Block(Lenient):
    order: str
    logs: tuple[str, ...]


class _Blocks(Lenient):
    kind: str
    concurrency: int
    blocks: tuple[_Block, ...]


def launches(info: RunInfo, evidence: Sequence[Evidence], telemetry: Telemetry) -> list[Launch]:
    """In the order in which they were started; all bars have one scale, that of the longest start."""
    longest = max((_phases(launch).get("total", 0.0) for launch in info.launches), default=0.0)
    names = list(dict.fromkeys(n for launch in info.launches for n in _phases(launch) if n != "total"))
    doomed = {name for name, one in info.candidates.items() if (one.get("expect") or {}).get("failure")}
    blocks = _blocks(evidence)
    found = []
    for launch, window in zip(info.launches, _windows(info, telemetry.last), strict=True):
        candidate, log, problem = (str(launch.get(key) or "") for key in ("candidate", "log", "problem"))
        seconds = _phases(launch)
        total_s = None if problem else seconds.get("total")
        parts = [Part(place, n.replace("_", " "), seconds[n]) for place, n in enumerate(names) if n in seconds]
        words = ", ".join(f"{part.name} {part.amount:.1f} s" for part in parts)
        ready = window[0] + total_s if window and total_s is not None else None
        found.append(
            Launch(
                candidate=candidate,
                log=log,
                problem=problem,
                is_expected=candidate in doomed,
                total_s=total_s,
                bar="" if total_s is None else bar(f"start-up of {candidate}: {words}", parts, longest),
                phases=tuple((part.place, part.name, part.amount) for part in parts),
                block=blocks.get(log, ""),
                began=str(launch.get("began") or ""),
                lanes=tuple(telemetry.lanes(*window, ready)) if window else (),
            )
        )
    return found


def _phases(launch: dict[str, Any]) -> dict[str, float]:
    return {name: s for name, value in (launch.get("phase_s") or {}).items() if (s := number(value)) is not None}


def _blocks(evidence: Sequence[Evidence]) -> dict[str, str]:
    """Log of a launch -> which block of which candidate it is half of."""
    return {
        log: f"block {index} ({block.order}) of {e.candidate}"
        for e in evidence
        if (found := read(_Blocks, e)) is not None
        for index, block in enumerate(found.blocks, 1)
        for log in block.logs
    }


def _windows(info: RunInfo, last: float | None) -> list[tuple[float, float] | None]:
    """From each launch's start to the next one's: one server runs at a time."""
    begins = [_seconds(launch.get("began")) for launch in info.launches]
    end = _seconds(info.finished) or last
    found: list[tuple[float, float] | None] = []
    for index, began in enumerate(begins):
        ended = next((later for later in begins[index + 1 :] if later is not None), end)
        found.append((began, ended) if began is not None and ended is not None and began < ended else None)
    return found


def _seconds(moment: object) -> float | None:
    try:
        return datetime.datetime.fromisoformat(str(moment)).timestamp()
    except ValueError:
        return None
