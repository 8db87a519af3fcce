"""A thread that looks at the machine while a run goes on, and hands time windows to whoever measures."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Protocol, Self

from sglgate.decision.blocks import Fact
from sglgate.decision.voids import CPU_VOID_RULES, GPU_VOID_RULES, VoidRule
from sglgate.errors import UnfitError
from sglgate.node import nvml
from sglgate.node.facts import Sample
from sglgate.node.host import is_own, owner
from sglgate.telemetry.facts import loaded_mhz, void_facts

TELEMETRY: Final = "telemetry.jsonl"
INTERVAL_S: Final = 0.4


def _told(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in pairs if value is not None}


class Sampled(Protocol):
    """Whatever can be looked at."""

    def sample(self) -> Sample:
        """Now."""


class Telemetry:
    """Context manager: entering starts the thread, leaving ends it and closes the file.

    Args:
        source: what is looked at.
        gpus: indices of the lane's GPUs; none on the CPU lane.
        file: where every sample goes as a line of JSON; None for no file.
        expected_mhz: SM clock under load, where the node's facts pin it. Else the best window so far sets it, and
            the windows after it are held against that.
    """

    def __init__(
        self,
        source: Sampled,
        *,
        gpus: Collection[int] = (),
        file: Path | None = None,
        expected_mhz: float | None = None,
    ) -> None:
        self._source, self.gpus, self._path = source, tuple(gpus), file
        self._pinned_mhz, self._best_mhz = expected_mhz, 0.0
        self._windows: list[Window] = []
        self._own: dict[int, bool] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._file: IO[str] | None = None
        self._cleanup = contextlib.ExitStack()

    def __enter__(self) -> Self:
        if self._path is not None:
            self._file = self._cleanup.enter_context(self._path.open("a", encoding="utf-8"))
        if self.gpus:
            # Held open: to load and unload the driver's library at every look costs more than the look.
            self._cleanup.enter_context(nvml.session())
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()
        self._cleanup.close()

    @property
    def rules(self) -> tuple[VoidRule, ...]:
        """The void rules that its facts are for."""
        return GPU_VOID_RULES if self.gpus else CPU_VOID_RULES

    def window(self) -> Window:
        """A window that is open while its ``with`` block runs."""
        return Window(self)

    def look(self) -> None:
        """Take one sample now; it goes to the file and to every open window. A look that fails leaves a gap."""
        with self._lock:
            try:
                sample = self._source.sample()
            except UnfitError as error:
                self._write({"error": str(error), "t_s": time.monotonic()})
                for window in self._windows:
                    window.gaps += 1
                return
            # While the process lives: of one that has ended nobody can tell any more whose it was.
            for pid in {process.pid for gpu in sample.gpus for process in gpu.processes} - set(self._own):
                self._own[pid] = is_own(pid, owner())
            line = asdict(sample, dict_factory=_told)
            for gpu in line["gpus"]:
                gpu["foreign"] = sum(not self._own[process["pid"]] for process in gpu["processes"])
            self._write(line)
            for window in self._windows:
                window.samples.append(sample)

    def _write(self, data: object) -> None:
        if self._file is not None:
            # A full disk must not end a run: evidence will say so, telemetry has a gap.
            with contextlib.suppress(OSError):
                self._file.write(json.dumps(data) + "\n")
                self._file.flush()

    def _run(self) -> None:
        due = time.monotonic() + INTERVAL_S
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            self.look()
            # On time, however long the look took; looks that were missed meanwhile are not made up for.
            due = max(due + INTERVAL_S, time.monotonic())

    def _open(self, window: Window) -> None:
        with self._lock:
            self._windows.append(window)
        self.look()

    def _close(self, window: Window) -> None:
        self.look()
        with self._lock:
            self._windows.remove(window)
        reached = loaded_mhz(window.samples, self.gpus)
        if reached is not None:
            self._best_mhz = max(reached, self._best_mhz)

    def _facts(self, window: Window) -> dict[str, Fact]:
        if window.gaps:
            return {}
        own = {pid for pid, is_ours in self._own.items() if is_ours}
        expected = self._pinned_mhz or self._best_mhz
        return void_facts(window.samples, gpus=self.gpus, own_pids=own, expected_mhz=expected)


class Window:
    """The samples between entering and leaving, both ends included."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self.samples: list[Sample] = []
        self.gaps = 0

    def __enter__(self) -> Self:
        self._telemetry._open(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._telemetry._close(self)

    def facts(self) -> dict[str, Fact]:
        """For the void rules. A window with a gap tells nothing, and voids."""
        return self._telemetry._facts(self)
