"""Things that one process at a time may have, and the queue before them that anybody can look at.

A seat is a file with an advisory lock: the kernel frees it when its holder dies, however it dies. A queue is a folder
with one such file for everyone who waits, so that whoever died while waiting stands in nobody's way.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sglgate.errors import UnfitError

_POLL_S: Final = 0.1
#: Whoever looks at a seat locks it for an instant.
_SECOND_LOOK_S: Final = 0.02


class TakenError(UnfitError):
    """Somebody else has what was asked for."""


@dataclass(frozen=True)
class Person:
    """Who holds a seat or waits for one. ``since`` is the Unix time in seconds."""

    pid: int
    user: str
    purpose: str
    since: float

    @classmethod
    def read(cls, path: Path) -> Person | None:
        """As its file says; None where that cannot be read."""
        try:
            return cls(**json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def __str__(self) -> str:
        minutes = (time.time() - self.since) / 60
        return f"pid {self.pid} of {self.user}, {self.purpose}, for {minutes:.0f} min"


def _record(purpose: str) -> bytes:
    user = os.environ.get("USER") or str(os.getuid())
    return json.dumps({"pid": os.getpid(), "user": user, "purpose": purpose, "since": time.time()}).encode()


@contextlib.contextmanager
def _for_everybody() -> Iterator[None]:
    # The users of one machine share seats and queue.
    mask = os.umask(0)
    try:
        yield
    finally:
        os.umask(mask)


class Seat:
    """One lock file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def take(self, purpose: str) -> bool:
        """Whether it is ours now.

        Raises:
            UnfitError: the file cannot be opened.
        """
        fd = self._open()
        for look in range(3):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if look == 2:
                    os.close(fd)
                    return False
                time.sleep(_SECOND_LOOK_S)
        os.ftruncate(fd, 0)
        os.pwrite(fd, _record(purpose), 0)
        self._fd = fd
        return True

    def give_up(self) -> None:
        """Let the next one have it."""
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None

    def holder(self) -> Person | str | None:
        """Who has it; None while it is free."""
        if not self.path.exists() or not _is_locked(self.path):
            return None
        return Person.read(self.path) or "an unknown holder"

    def _open(self) -> int:
        try:
            # Without O_CREAT first: where fs.protected_regular is on, that is refused for another user's file.
            return os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            with _for_everybody():
                self.path.parent.mkdir(mode=0o1777, parents=True, exist_ok=True)
                # No truncation: another may have been faster, and stand in it by name.
                return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise UnfitError(f"the lock {self.path} cannot be opened: {error.strerror}") from None


def _is_locked(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


class Queue:
    """Who waits, first come first served."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def waiting(self) -> list[Person]:
        """Everybody who waits and lives, in order."""
        return [person for path in self._living() if (person := Person.read(path)) is not None]

    def _living(self) -> list[Path]:
        living = []
        # Digits first: pathlib's "*" would find the hidden ones too, which are not locked yet.
        for path in sorted(self._folder.glob("[0-9]*")):
            if _is_locked(path):
                living.append(path)
            else:
                # Whoever stood here has died. Another user's file stays: it is in nobody's way.
                with contextlib.suppress(OSError):
                    path.unlink()
        return living

    @contextlib.contextmanager
    def stand(self, purpose: str) -> Iterator[Callable[[], bool]]:
        """Wait in line; what is yielded says whether it is our turn."""
        with _for_everybody():
            self._folder.mkdir(mode=0o1777, parents=True, exist_ok=True)
        name = f"{time.time_ns():020d}-{os.getpid()}"
        # Under its name only once it is locked: before, it would look as if its owner had died.
        part = self._folder / f".{name}"
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        place = self._folder / name
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            os.write(fd, _record(purpose))
            part.rename(place)
            yield lambda: self._living()[:1] == [place]
        finally:
            part.unlink(missing_ok=True)
            place.unlink(missing_ok=True)
            os.close(fd)


def take_any(
    choices: Sequence[Sequence[Seat]],
    queue: Queue,
    purpose: str,
    wait_s: float | None,
    tell: Callable[[str], Any],
) -> Sequence[Seat]:
    """The first of ``choices`` of which every seat is free, once it is our turn.

    Args:
        choices: groups of seats, any of which will do.
        queue: where to wait.
        purpose: what for, shown to whoever looks.
        wait_s: how long to wait; 0 refuses at once, None waits for ever.
        tell: called with one line, once, when the wait begins.

    Raises:
        TakenError: not free in time; names who holds it and who stands before us.
    """
    begun, told = time.monotonic(), False
    with queue.stand(purpose) as is_our_turn:
        while True:
            if is_our_turn():
                for seats in choices:
                    taken = [seat for seat in seats if seat.take(purpose)]
                    if len(taken) == len(seats):
                        return seats
                    for seat in taken:
                        seat.give_up()
            if wait_s is not None and time.monotonic() - begun >= wait_s:
                raise TakenError(_who_is_before_us(choices, queue))
            if not told:
                limit = f"up to {wait_s:.0f} s " if wait_s is not None else ""
                tell(f"waiting {limit}for {_who_is_before_us(choices, queue)}")
                told = True
            time.sleep(_POLL_S)


def _who_is_before_us(choices: Sequence[Sequence[Seat]], queue: Queue) -> str:
    seats = {seat.path: seat for group in choices for seat in group}
    held = sorted({f"{holder} ({path})" for path, seat in seats.items() if (holder := seat.holder()) is not None})
    others = [str(person) for person in queue.waiting() if person.pid != os.getpid()]
    words = [f"held by {text}" for text in held] + [f"before us waits {text}" for text in others]
    return "; ".join(words) or "a seat that was taken this moment"
