"""Follow a server's log while it grows: which start phase it is in, whether it is up, whether it has died."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from sglgate.config.profile import Deadlines
from sglgate.logs import LogReader
from sglgate.logs.record import StartupRecord

_CHUNK_BYTES: Final = 1 << 20
#: The phases of a start in order, each with the marks of the log (on any rank) that begin it.
PHASES: Final = {
    "process": (),
    "weights": ("weights_begin",),
    "kv": ("weights_end",),
    "graphs": ("kv_end", "graphs_begin"),
}


class LogWatch:
    """Reads what a log gained since the last look; never blocks.

    ``phase`` moves forward only: a draft model's weights come after the target's and are no step back.
    ``entered_at`` maps each phase to the monotonic time, in seconds, at which its first line was seen.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.phase = "process"
        self.entered_at: dict[str, float] = {"process": time.monotonic()}
        self.ready_seen_at: float | None = None
        self.fatal_seen_at: float | None = None
        self._reader = LogReader()
        self._offset = 0

    @property
    def record(self) -> StartupRecord:
        """All that the log has said so far."""
        return self._reader.record

    def look(self) -> None:
        """Read what is new."""
        try:
            with self.path.open("rb") as log:
                log.seek(self._offset)
                while chunk := log.read(_CHUNK_BYTES):
                    self._offset += len(chunk)
                    self._reader.feed(chunk)
        except FileNotFoundError:
            return
        now = time.monotonic()
        if self.ready_seen_at is None and self.record.ready:
            self.ready_seen_at = now
        if self.fatal_seen_at is None and self.record.fatal:
            self.fatal_seen_at = now
        seen = {mark.name for rank in self.record.ranks.values() for mark in rank.marks}
        order = list(PHASES)
        for phase in order[order.index(self.phase) + 1 :]:
            if seen.intersection(PHASES[phase]):
                self.phase = phase
                self.entered_at[phase] = now

    def overdue(self, deadlines: Deadlines) -> float | None:
        """The deadline of the current phase in seconds, if it has passed."""
        limit = {
            "process": deadlines.process_s,
            "weights": deadlines.weights_s,
            "kv": deadlines.kv_s,
            "graphs": deadlines.graphs_s,
        }[self.phase]
        return limit if time.monotonic() - self.entered_at[self.phase] > limit else None
