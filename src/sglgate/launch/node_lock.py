"""One run at a time on a machine: two servers that share it would both be measured wrong."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from sglgate.errors import UnfitError

_POLL_S = 0.2


def default_lock_file() -> Path:
    """One file a machine, whichever checkout or user runs; ``SGLGATE_LOCK`` names another."""
    # Not tempfile's folder: that follows TMPDIR, and two jobs with their own would both get the machine.
    return Path(os.environ.get("SGLGATE_LOCK", "/tmp/sglgate-node.lock"))  # noqa: S108


class NodeLock:
    """An advisory lock that the kernel drops when its holder dies, however it dies.

    Args:
        path: the lock file.
        purpose: what the holder does, shown to whoever waits.
        wait_s: how long to wait for the other run; 0 refuses at once.
        tell: called with one line, once, when the wait begins.
    """

    def __init__(self, path: Path, purpose: str, wait_s: float = 0, tell: Callable[[str], None] = print) -> None:
        self._path, self._purpose, self._wait_s, self._tell = path, purpose, wait_s, tell
        self._fd: int | None = None

    def __enter__(self) -> Self:
        fd = self._open()
        end, told = time.monotonic() + self._wait_s, False
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                holder = self.holder()
                if time.monotonic() >= end:
                    os.close(fd)
                    raise UnfitError(
                        f"another run holds this machine: {holder} ({self._path}); "
                        "wait for it with --wait-for-node SECONDS"
                    ) from None
                if not told:
                    self._tell(f"waiting up to {self._wait_s:.0f} s for this machine, held by {holder}")
                    told = True
                time.sleep(_POLL_S)
        self._fd = fd
        os.ftruncate(fd, 0)
        user = os.environ.get("USER") or str(os.getuid())
        record = {"pid": os.getpid(), "user": user, "purpose": self._purpose, "since": time.time()}
        os.pwrite(fd, json.dumps(record).encode(), 0)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None

    def _open(self) -> int:
        # No truncation: the file may hold the other run's name.
        try:
            # Without O_CREAT first: where fs.protected_regular is on, that is refused for another user's file.
            return os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            mask = os.umask(0)  # world-writable: the users of one machine share it
            try:
                return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            finally:
                os.umask(mask)
        except OSError as error:
            raise UnfitError(f"the lock {self._path} cannot be opened: {error.strerror}") from None

    def holder(self) -> str:
        """Who holds the lock, in words."""
        try:
            record = json.loads(self._path.read_bytes())
            minutes = (time.time() - record["since"]) / 60
            return f"pid {record['pid']} of {record['user']}, {record['purpose']}, for {minutes:.0f} min"
        except (OSError, ValueError, KeyError, TypeError):
            return "an unknown holder"
