"""One SGLang server: launched from a candidate, ready when it has answered, gone when it is stopped."""

from __future__ import annotations

import itertools
import os
import shlex
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from sglgate.config import Candidate, Profile
from sglgate.config.profile import Deadlines
from sglgate.container import Container, folders_of
from sglgate.errors import NotExercisedError, SglgateError
from sglgate.launch.client import Client, ServerError
from sglgate.launch.errors import LaunchError
from sglgate.launch.grounds import slot_environment
from sglgate.launch.keeping import Kept
from sglgate.launch.leftovers import TAG, MemoryLedger, require_no_others, tag
from sglgate.launch.ports import free_port
from sglgate.launch.watch import LogWatch
from sglgate.logs.record import StartupRecord
from sglgate.redact import redact
from sglgate.run import now
from sglgate.stack import Command, Stack, python_command

if TYPE_CHECKING:
    from sglgate.diagnosis import Diagnosis

_POLL_S: Final = 0.02
#: After a fatal line, how long the server may still write: the trace that names the cause often comes last.
_LAST_WORDS_S: Final = 0.5


def server_environment(candidate: Candidate) -> dict[str, str]:
    """What a candidate's server gets beside what every stack inherits."""
    # Unbuffered: a line that names the cause must not die in a buffer with its process.
    return {"PYTHONUNBUFFERED": "1", **candidate.environment, TAG: tag()}


class Server:
    """A server and everything that came of it.

    Args:
        candidate: what to launch.
        profile: its deadlines, and what "memory is back" means.
        stack: with which interpreter.
        model: folder or id to serve.
        log: its log file, written by the server itself.
        slots: the GPUs (or cores) that it may use; empty for all.
        deadlines: of its start, where they are not the profile's.
        port: where it listens; a free one if not told.
    """

    def __init__(
        self,
        candidate: Candidate,
        profile: Profile,
        stack: Stack,
        model: str,
        log: Path,
        slots: tuple[int, ...] = (),
        deadlines: Deadlines | None = None,
        port: int | None = None,
    ) -> None:
        self.candidate, self.profile, self.stack, self.model, self.log = candidate, profile, stack, model, log
        self.slots, self.deadlines = slots, deadlines or profile.deadlines
        #: What was asked for: here a draft may already be a folder where the candidate names a recipe.
        self.configuration = candidate.configuration
        self.port = port or free_port()
        api_key = candidate.arguments.get("api-key")
        self.client = Client(self.port, str(api_key) if api_key is not None else None)
        self.watch = LogWatch(log)
        #: When its process was started, UTC.
        self.began: str | None = None
        self.phase_s: dict[str, float] = {}
        self.ready_lag_s: float | None = None
        #: The server's own resolved arguments and state: the truth, whatever was asked.
        self.info: dict[str, Any] = {}
        #: Shared-memory segments that the server left behind and that were removed after it.
        self.swept: list[str] = []
        self._kept: Kept | None = None
        self._ledger: MemoryLedger | None = None

    @property
    def record(self) -> StartupRecord:
        """What the log has said up to the last look."""
        return self.watch.record

    @property
    def command(self) -> Command:
        """How it is started; nothing of it ever meets a shell."""
        assert self.stack.python is not None
        arguments = self.candidate.command_line()
        readable = folders_of([self.model, *arguments])
        return python_command(
            self.stack.python,
            [
                *("-m", "sglang.launch_server"),
                *("--model-path", self.model, "--host", "127.0.0.1", "--port", str(self.port)),
                *arguments,
            ],
            server_environment(self.candidate) | slot_environment(self.slots, self.profile.needs_gpu),
            {**dict.fromkeys(readable, False), self.log.parent: True},
            f"sglgate-{os.getpid()}-{self.port}",
        )

    @property
    def pid(self) -> int:
        """Process id of the server's first process."""
        assert self._kept is not None
        return self._kept.pid

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Launch, and return when a real ``/generate`` was answered.

        Raises:
            LaunchError: it died, hung in a phase, or said that it was up and did not answer; nothing of it is left.
            LeftoverError: an earlier server's process still lives, so nothing was started.
        """
        require_no_others()
        self._ledger = MemoryLedger(self.profile, self.slots)
        begun, self.began, command = time.monotonic(), now(), self.command
        self._kept = Kept(command.argv, self.log, command.environment, command.farewell)
        try:
            self._await_ready(begun)
            self.info = self.client.server_info()
        except ServerError as error:
            self._fail(str(error), "first_token")
        except LaunchError:
            raise  # whoever raised it has stopped the server, or has proved that it cannot
        except BaseException:
            self.stop(grace_s=0)
            raise

    def _await_ready(self, begun: float) -> None:
        probe: _Probe | None = None
        while True:
            died = self.dead()
            if died is not None:
                self._fail(died, "first_token" if probe else self.watch.phase)
            if probe is None and self.watch.ready_seen_at is not None:
                probe = _Probe(self.client, self.deadlines.first_token_s)
            if probe is None and (limit := self.watch.overdue(self.deadlines)) is not None:
                self._fail(f"no progress: the phase took more than its {limit:g} s", self.watch.phase)
            if probe is not None and probe.done.is_set():
                if probe.error is not None:
                    self._fail(f"said that it was up and did not answer /generate: {probe.error}", "first_token")
                break
            (probe.done if probe else _NEVER).wait(_POLL_S)
        ready = time.monotonic()
        assert self.watch.ready_seen_at is not None
        self.ready_lag_s = ready - self.watch.ready_seen_at
        moments = {**self.watch.entered_at, "first_token": self.watch.ready_seen_at, "ready": ready}
        names = list(moments)
        self.phase_s = {a: moments[b] - moments[a] for a, b in itertools.pairwise(names)}
        self.phase_s["total"] = ready - begun

    def dead(self) -> str | None:
        """How the server died, or None while it lives. A fatal line counts, even while its process lingers."""
        assert self._kept is not None
        self._kept.listen()
        self.watch.look()
        if self._kept.lost:
            return "the server's keeper was killed"
        if self._kept.returncode is not None:
            code = self._kept.returncode
            return f"the server exited with code {code}" if code >= 0 else f"the server was killed by signal {-code}"
        if self.watch.fatal_seen_at is not None and time.monotonic() - self.watch.fatal_seen_at > _LAST_WORDS_S:
            fatal = self.record.fatal[0]
            return f"fatal line {fatal.line}: {fatal.text[:160]}"
        return None

    def freeze(self) -> None:
        """Hold every process of it still: it keeps its memory and takes no time of any core.

        Raises:
            NotExercisedError: it runs in a container, whose processes are the engine's.
            LaunchError: it cannot be held still.
        """
        if isinstance(self.stack.python, Container):
            raise NotExercisedError("a server in a container cannot be held still while another one is measured")
        assert self._kept is not None
        self._kept.freeze()

    def thaw(self) -> None:
        """Let it run again."""
        assert self._kept is not None
        self._kept.freeze(still=False)

    def describe(self) -> dict[str, Any]:
        """The launch as ``run.json`` keeps it: phases in seconds, command line, the server's own arguments."""
        return {
            "candidate": self.candidate.name,
            "configuration": self.configuration,
            "slots": list(self.slots),
            "began": self.began,
            "phase_s": {phase: round(seconds, 3) for phase, seconds in self.phase_s.items()},
            "ready_lag_s": self.ready_lag_s,
            # Redacted as one line: in a list an option and its value stand apart.
            "command": redact(shlex.join(self.command.argv[1:])),
            "resolved": self.info,
        }

    def diagnose(self) -> Diagnosis:
        """What the log says of the failure."""
        # Deferred: the table of causes is some 230 patterns, and most runs need none of them.
        from sglgate.diagnosis import diagnose_file

        return diagnose_file(self.log)

    def _fail(self, problem: str, phase: str) -> None:
        fatal_at = self.watch.fatal_seen_at
        noticed = time.monotonic() - fatal_at if fatal_at is not None else None
        self.stop(grace_s=0)
        raise LaunchError(problem, phase=phase, log=self.log, diagnosis=self.diagnose(), noticed_after_s=noticed)

    def stop(self, grace_s: float | None = None) -> None:
        """End the server and prove that nothing of it is left.

        Raises:
            LeftoverError: a process or memory of it is still there; nothing may be launched on top.
        """
        self.client.close()
        if self._kept is None or self._ledger is None:
            return
        self._kept.stop(self.profile.deadlines.stop_s if grace_s is None else grace_s)
        self.swept = self._ledger.require_back()
        self.watch.look()


class _Probe:
    """One real token in the background, so that the server's death is seen while it is awaited."""

    def __init__(self, client: Client, deadline_s: float) -> None:
        self.done = threading.Event()
        self.error: SglgateError | None = ServerError("no answer")
        self._client, self._deadline_s = client, deadline_s
        threading.Thread(target=self._run, daemon=True, name="first-token").start()

    def _run(self) -> None:
        try:
            answer = self._client.generate("Hello", max_new_tokens=1, deadline_s=self._deadline_s)
            produced = answer["meta_info"].get("completion_tokens")
            self.error = None if produced else ServerError(f"an answer of {produced} tokens")
        except SglgateError as error:
            self.error = error
        finally:
            self.done.set()


_NEVER: Final = threading.Event()
