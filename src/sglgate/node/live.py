"""The real node: NVML, /proc and /sys, a few commands, and scripts in the stack's interpreter. All with deadlines."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import sglgate.stack_side
from sglgate.errors import UnfitError
from sglgate.node import nvml
from sglgate.node.facts import GpuSample, ModelFiles, Nvml, ProbeAnswer, Room, Sample, ToolOutput
from sglgate.node.host import read_host_sample, read_text
from sglgate.node.load import under_load
from sglgate.node.model_files import inspect_model
from sglgate.run import now
from sglgate.stack import inherited_environment

#: What may be asked, each with the commands that answer it; the first that works is taken.
TOOLS: Final[Mapping[str, Sequence[Sequence[str]]]] = {
    # The journal first: it holds the whole boot, while the kernel's own buffer drops its oldest lines.
    "kernel-log": (("journalctl", "--dmesg", "--boot", "--no-pager", "--output", "cat"), ("dmesg", "--notime")),
    "lspci": (("lspci", "-D", "-vvv"),),
}
_TOOL_DEADLINE_S: Final = 30
_PROBES: Final = Path(sglgate.stack_side.__file__).parent / "probes"
_SAMPLE_S: Final = 0.2


@dataclass(frozen=True)
class Live:
    """This machine.

    Args:
        gpus: whether GPUs are part of what is watched.
        python: the stack's interpreter, for probes.
        environment: what probes get on top of the suite's own.
        logs: folder for what probes print.
        reports: where runs are written.
        resolve: from a candidate's model to its folder; raises MisuseError where there is none.
    """

    gpus: bool
    python: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    logs: Path | None = None
    reports: Path = Path("reports")
    resolve: Callable[[str], str] = str

    def nvml(self) -> Nvml:
        """The GPUs."""
        return nvml.read_nvml()

    def sample(self) -> Sample:
        """One look at everything that moves."""
        # On a GPU node the processes are thousands and CPU time decides nothing: their walk is left out.
        return self._look(watch_own=not self.gpus)

    def _look(self, *, watch_own: bool) -> Sample:
        host = read_host_sample(watch_own=watch_own)
        return Sample(at=now(), t_s=time.monotonic(), host=host, gpus=nvml.read_samples() if self.gpus else ())

    def watch(self, count: int, interval_s: float) -> list[Sample]:
        """``count`` samples, ``interval_s`` apart."""
        samples: list[Sample] = []
        while len(samples) < count:
            if samples:
                time.sleep(interval_s)
            samples.append(self._look(watch_own=True))
        return samples

    def text(self, path: str) -> str | None:
        """A file of /proc or /sys."""
        return read_text(path)

    def tool(self, name: str) -> ToolOutput:
        """The first of the tool's commands that works."""
        problems = []
        for argv in TOOLS[name]:
            try:
                done = subprocess.run(
                    argv, capture_output=True, text=True, errors="replace", timeout=_TOOL_DEADLINE_S, check=False
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                problems.append(f"{argv[0]}: {error}")
                continue
            # journalctl says "-- No entries --" with code 0 to whoever may not read them.
            if done.returncode == 0 and done.stdout.strip() and not done.stdout.startswith("-- No entries"):
                return ToolOutput(output=done.stdout)
            problems.append(f"{argv[0]}: {(done.stderr.strip() or done.stdout.strip() or 'no output').splitlines()[0]}")
        return ToolOutput(output="", error="; ".join(problems))

    def room(self, place: str) -> Room | None:
        """Space in a place, or in the nearest folder above it that exists."""
        here = {"shm": Path("/dev/shm"), "reports": self.reports.absolute()}[place]  # noqa: S108 - looked at only
        while not here.exists() and here != here.parent:
            here = here.parent
        try:
            usage = shutil.disk_usage(here)
        except OSError:
            return None
        return Room(total_gib=round(usage.total / 2**30, 1), free_gib=round(usage.free / 2**30, 1))

    def model(self, name: str) -> ModelFiles:
        """The files of a candidate's model."""
        return inspect_model(Path(self.resolve(name)))

    def probe(self, name: str, arguments: Sequence[str], deadline_s: float) -> ProbeAnswer:
        """Run a probe in a session of its own; whatever is left of it at the end is killed.

        Raises:
            UnfitError: there is no stack to run it in.
        """
        if self.python is None or self.logs is None:
            raise UnfitError(f"the probe {name!r} needs a stack")
        with tempfile.TemporaryDirectory(prefix="sglgate-probe-") as folder:
            out = Path(folder) / "result.json"
            self.logs.mkdir(parents=True, exist_ok=True)
            log = self.logs / f"preflight.{name}.log"
            with log.open("a", encoding="utf-8") as stream:
                process = subprocess.Popen(
                    [str(self.python), str(_PROBES / f"probe_{name}.py"), "--out", str(out), *arguments],
                    # The probe reads its end: it must not outlive a suite that is killed.
                    stdin=subprocess.PIPE,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    env={
                        **inherited_environment(),
                        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                        # Its own limit comes first, so that it can say how far it came.
                        "SGLGATE_LIMIT_S": str(0.8 * deadline_s),
                        **self.environment,
                    },
                    start_new_session=True,
                )
            try:
                seen, in_time = self._await(process, deadline_s)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                if process.stdin is not None:
                    process.stdin.close()
            result, error = None, None
            # What a probe wrote before it hung or died says how far it came.
            with contextlib.suppress(OSError, ValueError):
                result = json.loads(out.read_text(encoding="utf-8"))
            if not in_time:
                error = f"no end within {deadline_s:g} s: killed"
            elif process.returncode != 0 or result is None:
                lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
                last = lines[-1][:300] if lines else "it printed nothing"
                error = f"ended by signal {-process.returncode}: {last}" if process.returncode < 0 else last
            return ProbeAnswer(result=result, error=error, under_load=under_load(seen))

    def _await(self, process: subprocess.Popen[bytes], deadline_s: float) -> tuple[list[tuple[GpuSample, ...]], bool]:
        seen: list[tuple[GpuSample, ...]] = []
        end = time.monotonic() + deadline_s
        while process.poll() is None:
            if time.monotonic() > end:
                return seen, False
            if self.gpus:
                seen.append(nvml.read_samples())
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=_SAMPLE_S)
        return seen, True
