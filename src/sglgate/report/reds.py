"""Why a gate is red: its reason, in which each line that it names leads to that line of the log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sglgate.evidence import Evidence
from sglgate.report.board import Board
from sglgate.report.excerpts import Excerpt, excerpt, split_at_lines, spoken_of

#: All excerpts together; a page of hundreds of red gates must still be one that can be sent.
_MOST_CHARACTERS: Final = 1 << 20
#: Excerpts of one gate; it may name a hundred launches.
_MOST_LOGS: Final = 4


@dataclass(frozen=True)
class ShownLog:
    """A log that belongs to a red gate. ``excerpt`` is None where an earlier gate, ``anchor``, has it already."""

    name: str
    anchor: str
    excerpt: Excerpt | None


@dataclass(frozen=True)
class Red:
    """One red gate. ``pieces`` of the reason: the text and, where it names a line that is shown, the line's anchor."""

    candidate: str
    gate: tuple[str, str]
    evidence: Evidence
    pieces: tuple[tuple[str, str], ...]
    logs: tuple[ShownLog, ...]


def explain_reds(folder: Path, board: Board) -> list[Red]:
    """Every gate that is not green, in the board's order; each log's excerpt stands where it is first needed."""
    wanted: dict[str, set[int]] = {}
    for _, _, cell in board.reds():
        for log in _logs(cell.telling):
            wanted.setdefault(log, set())
        if (meant := _meant(cell.telling)) is not None:
            wanted[meant] |= spoken_of(cell.telling.reason)
    excerpts, left = {}, _MOST_CHARACTERS
    for log, lines in wanted.items():
        found = excerpt(folder, log, lines) if left > 0 else Excerpt((), "left out, for the size of this page")
        excerpts[log] = found
        left -= sum(len(line.text) + 200 for line in found.lines)
    anchors = {log: f"log{number}" for number, log in enumerate(wanted)}
    shown: set[str] = set()
    reds = []
    for candidate, gate, cell in board.reds():
        logs = []
        for log in _logs(cell.telling):
            logs.append(ShownLog(log, anchors[log], None if log in shown else excerpts[log]))
            shown.add(log)
        meant = _meant(cell.telling)
        numbers = excerpts[meant].numbers if meant is not None else frozenset()
        pieces = tuple(
            (text, f"{anchors[meant]}-{number}" if meant is not None and number in numbers else "")
            for text, number in split_at_lines(cell.telling.reason)
        )
        reds.append(Red(candidate, gate, cell.telling, pieces, tuple(logs)))
    return reds


def _meant(e: Evidence) -> str | None:
    """The log whose lines a reason speaks of: the one that it names, else the one that came last."""
    logs = _logs(e)
    return next((log for log in logs if log in e.reason), logs[0] if logs else None)


def _logs(e: Evidence) -> list[str]:
    """Its logs, latest first."""
    return list(dict.fromkeys(reversed(e.logs)))[:_MOST_LOGS]
