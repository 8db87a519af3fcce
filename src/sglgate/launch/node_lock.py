"""One run at a time on a machine: two servers that share it would both be measured wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from sglgate.errors import UnfitError
from sglgate.launch.seats import Queue, Seat, TakenError, take_any


def default_lock_file() -> Path:
    """One file a machine, whichever checkout or user runs; ``SGLGATE_LOCK`` names another."""
    # Not tempfile's folder: that follows TMPDIR, and two jobs with their own would both get the machine.
    return Path(os.environ.get("SGLGATE_LOCK", "/tmp/sglgate-node.lock"))  # noqa: S108


def node_queue(path: Path) -> Queue:
    """Who waits for the machine."""
    return Queue(path.with_name(f"{path.name}.queue"))


class NodeLock:
    """The whole machine, for one run.

    Args:
        path: the lock file.
        purpose: what the holder does, shown to whoever waits.
        wait_s: how long to wait for the other run; 0 refuses at once.
        tell: called with one line, once, when the wait begins.
    """

    def __init__(self, path: Path, purpose: str, wait_s: float = 0, tell: Callable[[str], None] = print) -> None:
        self._seat, self._queue = Seat(path), node_queue(path)
        self._purpose, self._wait_s, self._tell = purpose, wait_s, tell

    def __enter__(self) -> Self:
        try:
            take_any([[self._seat]], self._queue, self._purpose, self._wait_s, self._tell)
        except TakenError as error:
            raise UnfitError(
                f"another run has this machine: {error}; wait for it with --wait-for-node SECONDS"
            ) from None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._seat.give_up()

    def holder(self) -> str:
        """Who holds the machine, in words."""
        return str(self._seat.holder())
