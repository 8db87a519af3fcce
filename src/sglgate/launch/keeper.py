"""The server's keeper: a small process that outlives neither its server nor the suite. Standard library only.

It makes itself the child subreaper, so that every process the server ever starts, in whatever session and whoever its
parent was, is in the end a child of the keeper. "No process of the server lives" is then not a search but a fact: the
kernel says ECHILD. And its stdin is a pipe from the suite: when the suite dies, even by ``kill -9``, the pipe closes
and the keeper kills the server.

stdin: lines: ``freeze``, ``thaw``, and at the end ``stop SECONDS`` (grace between SIGTERM and SIGKILL); its end means
to kill now.
stdout: JSON lines: {"started": pid}, {"frozen": true or false}, {"exited": returncode}, {"stopped": true, "killed": n}
at the very end.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)
_POLL_S = 0.02
_FAREWELL_S = 25


def _say(**message: object) -> None:
    # The suite may be gone: the keeper still has a server to kill.
    with contextlib.suppress(OSError):
        os.write(1, (json.dumps(message) + "\n").encode())


def descendants(root: int) -> list[int]:
    """Every living process below ``root``, nearest first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                # The command name may hold spaces and parentheses: fields start after the last one.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if fields[0] != "Z":
                    children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = list(children.get(root, []))
    for pid in found:
        found.extend(children.get(pid, []))
    return found


class Keeper:
    """Starts one command and answers for everything that comes of it."""

    def __init__(self, argv: list[str], log: str, farewell: list[list[str]]) -> None:
        self.farewell = farewell
        if _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "cannot become the child subreaper")
        if cores := os.environ.get("SGLGATE_CORES"):
            os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
        with Path(log).open("ab", buffering=0) as out:
            self.server = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # Should the keeper itself be killed, the server must not stay.
                preexec_fn=lambda: _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),
            )
        self.exited = False
        _say(started=self.server.pid)

    def reap(self) -> bool:
        """Collect the dead; True while any process of the server lives."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.server.pid:
                self.exited = True
                self.server.returncode = os.waitstatus_to_exitcode(status)
                _say(exited=self.server.returncode)

    def freeze(self) -> None:
        """No process of the server runs any more, until :meth:`thaw`; one that is being forked is caught by and by."""
        stopped: set[int] = set()
        while fresh := set(descendants(os.getpid())) - stopped:
            self._signal(fresh, signal.SIGSTOP)
            stopped |= fresh
        _say(frozen=True)

    def thaw(self) -> None:
        """All of it runs again."""
        self._signal(descendants(os.getpid()), signal.SIGCONT)
        _say(frozen=False)

    @staticmethod
    def _signal(pids: Iterable[int], number: signal.Signals) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self, grace_s: float) -> None:
        """SIGTERM to the server, SIGKILL to all that is left after ``grace_s``, until the kernel says none lives."""
        # What is frozen could not hear it.
        self._signal(descendants(os.getpid()), signal.SIGCONT)
        if not self.exited and grace_s > 0:
            self._signal([self.server.pid], signal.SIGTERM)
        end, killed = time.monotonic() + grace_s, set()
        while self.reap():
            if select.select([0], [], [], 0)[0]:
                # A shorter stop, or the suite is gone: either way nobody waits for the grace any more.
                words = os.read(0, 1024).split()
                end = min(end, time.monotonic() + (float(words[-1]) if words else 0.0))
            if time.monotonic() >= end or self.exited:
                left = descendants(os.getpid())
                killed.update(left)
                self._signal(left, signal.SIGKILL)
            time.sleep(_POLL_S)
        if self._gone():
            _say(stopped=True, killed=len(killed))

    def _gone(self) -> bool:
        """Say farewell: what a container's daemon keeps is no descendant, so killing the client does not end it."""
        for command in self.farewell:
            try:
                last = subprocess.run(
                    command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_FAREWELL_S, check=False
                )
            except (OSError, subprocess.TimeoutExpired):
                return False
        return not self.farewell or (last.returncode == 0 and not last.stdout.strip())

    def run(self) -> None:
        """Serve until told to stop, or until the suite is gone."""
        while True:
            alive = self.reap()
            ready, _, _ = select.select([0], [], [], _POLL_S if alive else None)
            if not ready:
                continue
            words = os.read(0, 1024).split()
            # One order at a time: the suite waits for each answer, save when it stops.
            if words == [b"freeze"]:
                self.freeze()
            elif words == [b"thaw"]:
                self.thaw()
            else:
                self.stop(float(words[-1]) if b"stop" in words else 0.0)
                return


def main() -> None:
    """``keeper.py LOG FAREWELL COMMAND...``."""
    # The terminal's Ctrl-C and hang-up are the suite's to handle. Not SIG_IGN: the server would inherit that.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    try:
        keeper = Keeper(sys.argv[3:], sys.argv[1], json.loads(sys.argv[2]))
    except OSError as error:
        _say(failed=str(error))
        return
    keeper.run()


if __name__ == "__main__":
    main()
