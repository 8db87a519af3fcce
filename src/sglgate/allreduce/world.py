"""The ranks of one world: started together, asked together, and never left behind.

Every rank is a session of its own, so that whatever it started dies with it. A question has a deadline;
when it passes, the stacks of all ranks are taken first and all are killed then, so a hang ends as a report.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self, TypeVar

import psutil
from pydantic import BaseModel, TypeAdapter

import sglgate.stack_side
from sglgate.allreduce.messages import ExactAnswer, GroupState, Ready, Served, TimedAnswer
from sglgate.errors import SglgateError

_WORKER = Path(sglgate.stack_side.__file__).parent / "allreduce"
_GRACE_S = 5.0
_STACKS_LIMIT_S = 20.0
_SERVED = TypeAdapter(list[Served])
Answer = TypeVar("Answer", bound=BaseModel)


class WorldError(SglgateError):
    """A world that cannot be asked any more; all its ranks are already dead when this is raised."""


class RankFailedError(WorldError):
    """A rank raised, or ended: ``rank``, its ``error`` and the end of its log."""

    def __init__(self, rank: int, error: str, detail: str) -> None:
        self.rank, self.error, self.detail = rank, error, detail
        super().__init__(f"rank {rank}: {error}\n{detail}")


class HangError(WorldError):
    """No answer in time: ``command``, the ranks ``waiting``, and the ``stacks`` of all ranks."""

    def __init__(self, command: str, deadline_s: float, waiting: Sequence[int], stacks: Mapping[int, str]) -> None:
        self.command, self.deadline_s = command, deadline_s
        self.waiting, self.stacks = tuple(waiting), dict(stacks)
        shown = "\n".join(f"--- rank {rank}\n{stack}" for rank, stack in sorted(stacks.items()))
        super().__init__(
            f"hang: {command} not answered by rank(s) {', '.join(map(str, waiting))} in {deadline_s:g} s\n{shown}"
        )


@dataclass(frozen=True)
class WorldSpec:
    """What to start.

    Attributes:
        python: the stack's interpreter.
        log_dir: where each rank's stderr goes, ``rank<N>.log``.
        env: the ranks' whole environment, as the candidate's server would get it.
        settings: SGLang's all-reduce switches, see ``paths.worker_settings``.
        collective_limit_s: torch.distributed's own timeout; above any deadline, so that a hang is seen as
        one.
    """

    python: Path
    world_size: int
    device: Literal["cpu", "cuda"]
    log_dir: Path
    env: Mapping[str, str]
    settings: Mapping[str, bool] = field(default_factory=dict)
    collective_limit_s: int = 1800


class World:
    """Context manager: entering starts the ranks and waits until their groups stand; leaving ends them."""

    def __init__(self, spec: WorldSpec, *, start_limit_s: float = 300.0) -> None:
        self.spec, self._start_limit_s = spec, start_limit_s
        self._ranks: list[subprocess.Popen[str]] = []
        self._answers: queue.Queue[tuple[int, dict[str, Any] | None]] = queue.Queue()
        self._asked = 0
        self.ready: tuple[Ready, ...] = ()

    def __enter__(self) -> Self:
        self._folder = tempfile.mkdtemp(prefix="sglgate-world-")
        try:
            self._start()
            answers = self._collect("start", 0, self._start_limit_s)
            self.ready = tuple(Ready.model_validate(answer) for answer in answers)
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def is_alive(self) -> bool:
        """Whether it can still be asked."""
        return bool(self._ranks)

    @property
    def pids(self) -> tuple[int, ...]:
        """The ranks' process ids, also the ids of their sessions."""
        return tuple(rank.pid for rank in self._ranks)

    def _start(self) -> None:
        spec = self.spec
        spec.log_dir.mkdir(parents=True, exist_ok=True)
        environment = {**_hermetic(spec.device), **spec.env}
        for rank in range(spec.world_size):
            command = [
                *(str(spec.python), str(_WORKER)),
                *("--rank", str(rank), "--world-size", str(spec.world_size), "--device", spec.device),
                *("--init-method", f"file://{self._folder}/rendezvous"),
                *("--timeout-s", str(spec.collective_limit_s)),
                *("--settings", json.dumps(dict(spec.settings))),
            ]
            with (spec.log_dir / f"rank{rank}.log").open("w") as log:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    env=environment,
                    start_new_session=True,
                )
            self._ranks.append(process)
            assert process.stdout is not None
            threading.Thread(target=self._read, args=(rank, process.stdout), daemon=True).start()

    def _read(self, rank: int, stdout: IO[str]) -> None:
        with stdout:
            for line in stdout:
                self._answers.put((rank, json.loads(line)))
        self._answers.put((rank, None))

    def ask(self, command: str, *, deadline_s: float, **arguments: Any) -> list[Any]:
        """Send a command to all ranks; their answers, by rank.

        Raises:
            RankFailedError: a rank raised or ended.
            HangError: a rank did not answer within ``deadline_s``.
        """
        if not self._ranks:
            raise WorldError(f"{command}: this world has ended")
        self._asked += 1
        message = {
            "id": self._asked,
            "command": command,
            "arguments": arguments,
            # The rank's own last resort comes after the suite has looked at it and killed it.
            "hard_limit_s": deadline_s + 2 * _STACKS_LIMIT_S + _GRACE_S,
        }
        for rank in self._ranks:
            # A rank that is gone is found, with its reason, when its answer is missed.
            with contextlib.suppress(OSError):
                assert rank.stdin is not None
                rank.stdin.write(json.dumps(message) + "\n")
                rank.stdin.flush()
        return self._collect(command, self._asked, deadline_s)

    def prepare(self, *, hidden: int, max_rows: int, deadline_s: float = 120) -> list[GroupState]:
        """Build what the server builds before its first reduction (PCIe-IPC's workspace)."""
        return self._as(GroupState, self.ask("prepare", deadline_s=deadline_s, hidden=hidden, max_rows=max_rows))

    def engaged(
        self,
        cases: Sequence[tuple[str, tuple[int, ...]]],
        *,
        mode: str = "eager",
        fault: Mapping[str, Any] | None = None,
        deadline_s: float = 120,
    ) -> list[list[Served]]:
        """Profile one call per ``(dtype, shape)``: by rank, what served it."""
        asked = [{"dtype": dtype, "shape": shape} for dtype, shape in cases]
        answers = self.ask("engaged", deadline_s=deadline_s, cases=asked, mode=mode, fault=fault)
        return [_SERVED.validate_python(answer) for answer in answers]

    def exact(
        self,
        cases: Sequence[Mapping[str, Any]],
        *,
        fault: Mapping[str, Any] | None = None,
        deadline_s: float = 600,
    ) -> list[ExactAnswer]:
        """Run exact cases (``plan``): by rank, what was wrong."""
        return self._as(ExactAnswer, self.ask("exact", deadline_s=deadline_s, cases=list(cases), fault=fault))

    def time(
        self, *, fault: Mapping[str, Any] | None = None, deadline_s: float = 600, **arguments: Any
    ) -> list[TimedAnswer]:
        """Time blocks of candidate and baseline (``stack_side.allreduce.timing.run``): by rank."""
        return self._as(TimedAnswer, self.ask("time", deadline_s=deadline_s, fault=fault, **arguments))

    @staticmethod
    def _as(model: type[Answer], answers: list[Any]) -> list[Answer]:
        return [model.model_validate(answer) for answer in answers]

    def _collect(self, command: str, number: int, deadline_s: float) -> list[Any]:
        answers: dict[int, Any] = {}
        failed: tuple[int, str, str] | None = None
        until = time.monotonic() + deadline_s
        while len(answers) < self.spec.world_size:
            try:
                rank, answer = self._answers.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                if failed is not None:
                    break
                waiting = sorted(set(range(self.spec.world_size)) - set(answers))
                stacks = self.stacks()
                self.kill()
                raise HangError(command, deadline_s, waiting, stacks) from None
            if answer is None:
                failed = failed or (rank, f"ended during {command}", self._log_end(rank))
            elif not answer["ok"]:
                failed = failed or (rank, answer["error"], answer["trace"])
            elif answer["id"] == number:
                answers[rank] = answer["result"]
                continue
            if failed is not None:
                # The others may be stuck in a collective with the one that failed: they get no full deadline.
                until = min(until, time.monotonic() + _GRACE_S)
        if failed is not None:
            self.kill()
            raise RankFailedError(*failed)
        return [answers[rank] for rank in sorted(answers)]

    def stacks(self) -> dict[int, str]:
        """The stacks of all living ranks: py-spy's, or where it may not attach, the rank's own dump."""
        pyspy = self.spec.python.parent / "py-spy"
        found = str(pyspy) if pyspy.exists() else shutil.which("py-spy")
        return {number: self._stack(rank, number, found) for number, rank in enumerate(self._ranks)}

    def _stack(self, rank: subprocess.Popen[str], number: int, pyspy: str | None) -> str:
        if rank.poll() is not None:
            return f"ended with code {rank.returncode}\n{self._log_end(number)}"
        if pyspy is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                dump = subprocess.run(
                    [pyspy, "dump", "--pid", str(rank.pid)],
                    capture_output=True,
                    text=True,
                    timeout=_STACKS_LIMIT_S,
                    check=False,
                )
                if dump.returncode == 0:
                    return dump.stdout
        log = self.spec.log_dir / f"rank{number}.log"
        before = log.stat().st_size
        rank.send_signal(signal.SIGUSR1)
        time.sleep(1.0)
        return log.read_bytes()[before:].decode(errors="replace")

    def _log_end(self, rank: int, characters: int = 3000) -> str:
        return (self.spec.log_dir / f"rank{rank}.log").read_text(errors="replace")[-characters:]

    def close(self) -> None:
        """Ask the ranks to quit, then make sure."""
        if self._ranks:
            with contextlib.suppress(WorldError):
                self.ask("quit", deadline_s=_GRACE_S)
        self.kill()

    def kill(self) -> None:
        """End every session at once and reap it; returns only when nothing of it lives."""
        sessions = self.pids
        for rank in self._ranks:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(rank.pid, signal.SIGKILL)
            if rank.stdin is not None:
                with contextlib.suppress(OSError):
                    rank.stdin.close()
        for rank in self._ranks:
            rank.wait(timeout=60)
        self._ranks = []
        shutil.rmtree(self._folder, ignore_errors=True)
        until = time.monotonic() + 30
        while left := survivors(sessions):
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > until:
                raise WorldError(f"processes of the world are still alive: {left}")
            time.sleep(0.05)


def survivors(sessions: Sequence[int]) -> list[int]:
    """Living processes of these sessions; a zombie counts, as its parent failed to reap it."""
    found = []
    for pid in psutil.pids():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) in sessions:
                found.append(pid)
    return found


def _hermetic(device: str) -> dict[str, str]:
    if device == "cuda":
        return {}
    return {
        "OMP_NUM_THREADS": "1",
        # gloo otherwise looks the host name up, which a machine without a network cannot.
        "GLOO_SOCKET_IFNAME": "lo",
        # The NCCL communicator insists on a CUDA device where it finds the library.
        "SGLANG_NCCL_SO_PATH": "none",
        # A worker needs no attention backend; importing one would double its start.
        "SGLANG_PLUGINS": "sglgate_shm_all_reduce",
    }
