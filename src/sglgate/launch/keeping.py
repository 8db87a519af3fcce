"""The suite's end of the keeper: start it, hear what it says, have it stop the server."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from sglgate.launch.errors import LaunchError, LeftoverError

_KEEPER: Final = Path(__file__).with_name("keeper.py")
_START_DEADLINE_S: Final = 10.0
#: What the kernel may need to tear down a killed process that holds tens of GiB.
_KILL_DEADLINE_S: Final = 60.0
_FREEZE_DEADLINE_S: Final = 10.0


class Kept:
    """One command with all its descendants, kept by a :mod:`keeper <sglgate.launch.keeper>` process.

    Args:
        argv: the command; no shell is involved.
        log: its stdout and stderr are appended here.
        environment: its whole environment.
        farewell: commands to run after it, the last of which must print nothing: else it is not proved gone.

    Raises:
        LaunchError: the command cannot be executed.
    """

    def __init__(
        self, argv: Sequence[str], log: Path, environment: Mapping[str, str], farewell: Sequence[Sequence[str]] = ()
    ) -> None:
        self.log = log
        self.returncode: int | None = None
        self.stopped = False
        self.killed = 0
        self.frozen = False
        self._buffer = b""
        self._failed: str | None = None
        self._started: int | None = None
        self._keeper = subprocess.Popen(
            [sys.executable, "-S", "-E", str(_KEEPER), str(log), json.dumps(list(farewell)), *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env=dict(environment),
        )
        assert self._keeper.stdout is not None
        os.set_blocking(self._keeper.stdout.fileno(), False)
        end = time.monotonic() + _START_DEADLINE_S
        try:
            while self._started is None:
                self.listen()
                if self._failed or self.lost or time.monotonic() > end:
                    raise LaunchError(self._failed or "the keeper did not start it", phase="process", log=log)
                time.sleep(0.005)
        except BaseException:
            self._close()
            raise

    @property
    def pid(self) -> int:
        """The command's own process id."""
        assert self._started is not None
        return self._started

    @property
    def lost(self) -> bool:
        """Whether the keeper ended without having proved that its command is gone."""
        return not self.stopped and self._keeper.poll() is not None

    def listen(self) -> None:
        """Take in what the keeper has said; never blocks."""
        assert self._keeper.stdout is not None
        if self._keeper.stdout.closed:
            return
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._keeper.stdout.fileno(), 4096):
                self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            message = json.loads(line)
            self._started = message.get("started", self._started)
            self.returncode = message.get("exited", self.returncode)
            self._failed = message.get("failed", self._failed)
            self.frozen = message.get("frozen", self.frozen)
            if message.get("stopped"):
                self.stopped, self.killed = True, message["killed"]

    def freeze(self, still: bool = True) -> None:
        """Hold every process of the command still, or let all run again; returns when it is so.

        Raises:
            LaunchError: the keeper did not say that it is so.
        """
        self._tell("freeze" if still else "thaw")
        end = time.monotonic() + _FREEZE_DEADLINE_S
        while self.frozen is not still:
            self.listen()
            if self.lost or time.monotonic() > end:
                word = "held still" if still else "woken"
                raise LaunchError(f"the processes of pid {self.pid} cannot be {word}", phase="serving", log=self.log)
            time.sleep(0.002)

    def _tell(self, order: str) -> None:
        assert self._keeper.stdin is not None
        # Closed: an earlier stop had no proof, and there is none now.
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._keeper.stdin.write(f"{order}\n".encode())
            self._keeper.stdin.flush()

    def stop(self, grace_s: float) -> None:
        """End the command and all that came of it; return only when the kernel says that none of it lives.

        Raises:
            LeftoverError: something of it outlived SIGKILL by a minute, or the keeper died and cannot tell.
        """
        if self.stopped:
            return
        self._tell(f"stop {grace_s}")
        end = time.monotonic() + grace_s + _KILL_DEADLINE_S
        while not self.stopped and time.monotonic() < end and self._keeper.poll() is None:
            self.listen()
            time.sleep(0.01)
        self.listen()
        self._close()
        if not self.stopped:
            raise LeftoverError(
                f"the processes of pid {self.pid} are not proved gone: end them by hand", phase="stop", log=self.log
            )

    def _close(self) -> None:
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._keeper.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._keeper.wait(timeout=_START_DEADLINE_S)
        self._keeper.stdout.close()
