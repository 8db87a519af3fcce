"""Dumps of processes that stand still (py-spy): of each main thread the frames, innermost first as they are printed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from sglgate.diagnosis.tracebacks import STACK_FRAME, STACK_THREAD, short

_MAX_STACKS: Final = 64
_MAX_FRAMES: Final = 60


@dataclass(slots=True)
class Stack:
    """One thread: the line of its innermost frame, its rank, its frames (``path:function``), outermost first."""

    line: int
    rank: str
    frames: list[str] = field(default_factory=list)


class Stacks:
    """Collects them line by line; threads other than the main one are what it waits for, and tell nothing."""

    def __init__(self) -> None:
        self.found: list[Stack] = []
        self._open: Stack | None = None
        self._aside = False

    def add(self, line: int, rank: str, text: str) -> bool:
        """Whether the line belongs to a dump."""
        if header := STACK_THREAD.match(text):
            self._open, self._aside = None, (header["name"] or "MainThread") != "MainThread"
            return True
        frame = STACK_FRAME.match(text)
        if frame is None:
            return False
        if not self._aside:
            self._frame(line, rank, f"{short(frame['path'])}:{frame['function']}")
        return True

    def _frame(self, line: int, rank: str, place: str) -> None:
        if self._open is None or line - self._open.line > _MAX_FRAMES:
            self._open = Stack(line, rank)
            if len(self.found) < _MAX_STACKS:
                self.found.append(self._open)
        self._open.frames.insert(0, place)
