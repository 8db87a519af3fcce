"""What an ended run may have left on this machine, so that the next one would be measured wrong."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from sglgate.launch.leftovers import tagged_processes
from sglgate.launch.node_lock import default_lock_file
from sglgate.launch.seats import Seat
from sglgate.node.facts import GpuSample
from sglgate.node.nvml import NoGpuError, read_samples

_END_DEADLINE_S: Final = 30.0


def find_dirt(gpu_tolerance_mib: int) -> list[str]:
    """Every reason why no run should start here now, in words; empty on a clean machine.

    A run that goes on is no dirt: it holds the machine's lock, and its servers are where they belong.
    """
    if Seat(default_lock_file()).holder() is not None:
        return []
    dirt = [f"a server's process is left: pid {pid}: {command}" for pid, command in tagged_processes().items()]
    return dirt + gpu_dirt(_gpus(), gpu_tolerance_mib)


def gpu_dirt(gpus: Iterable[GpuSample], tolerance_mib: int) -> list[str]:
    """What is wrong with GPUs on which nothing should run."""
    dirt = []
    for gpu in gpus:
        if gpu.processes:
            pids = ", ".join(f"pid {pid}" for pid in sorted(process.pid for process in gpu.processes))
            dirt.append(f"GPU {gpu.index} has processes: {pids}")
        elif gpu.used_mib > tolerance_mib:
            dirt.append(f"GPU {gpu.index} holds {gpu.used_mib} MiB and no process says why: it may need a reset")
    return dirt


def _gpus() -> Iterable[GpuSample]:
    try:
        return read_samples()
    except NoGpuError:
        return []  # a machine without: preflight says so where it matters


def end_leftovers() -> list[str]:
    """Kill what an earlier run's servers left, if no run goes on; returns what was killed, but no other user's."""
    if Seat(default_lock_file()).holder() is not None:
        return []
    ended = []
    end = time.monotonic() + _END_DEADLINE_S
    while (left := tagged_processes()) and time.monotonic() < end:
        for pid, command in left.items():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                ended.append(f"pid {pid}: {command}")
        time.sleep(0.2)
    return sorted(set(ended))


def mark_out_of_service(marker: Path, dirt: Iterable[str]) -> None:
    """Write or remove the file that keeps this machine out of service."""
    dirt = list(dirt)
    if dirt:
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.write_text("\n".join(dirt) + "\n", encoding="utf-8")
    else:
        marker.unlink(missing_ok=True)
