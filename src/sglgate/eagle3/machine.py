"""What the machine did while an arm was under load: the facts that may void its block, whatever it measured."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil

from sglgate.decision import Fact, VoidRule

#: Of both arms' launches. Throttling and clocks of a GPU are the node's to report; this sees CPU work of others.
VOID_RULES: Final = (
    VoidRule("foreign load", "foreign_cpu_share", "above", 0.10),
    VoidRule("throttled", "throttled_share", "above", 0.01),
)
_CPU_STAT: Final = Path("/sys/fs/cgroup/cpu.stat")


class LoadWatch:
    """Counts CPU time between entering and leaving: all of the machine's, and that of the suite and its server.

    Args:
        pid: the server's first process; all its descendants count as its own.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def __enter__(self) -> Self:
        self._began, self._busy, self._own = time.monotonic(), _busy_s(), self._own_s()
        self._periods = _throttled()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        after_s = self._own_s()
        # A process that ended in between takes its figure with it; what it used counts as foreign, not as ours.
        own = sum(spent - self._own.get(pid, 0.0) for pid, spent in after_s.items())
        elapsed = max(time.monotonic() - self._began, 1e-9)
        self._foreign_share = max(0.0, _busy_s() - self._busy - own) / (elapsed * (os.cpu_count() or 1))
        before, after = self._periods, _throttled()
        periods = after[0] - before[0]
        self._throttled_share = (after[1] - before[1]) / periods if periods else 0.0

    def facts(self) -> dict[str, Fact]:
        """``foreign_cpu_share``: of all cores, by others, hypervisor included. ``throttled_share``: of cgroup periods.

        A machine without a CPU quota has no throttled periods: 0.
        """
        return {"foreign_cpu_share": self._foreign_share, "throttled_share": self._throttled_share}

    def _own_s(self) -> dict[int, float]:
        mine: dict[int, float] = {}
        for root in (os.getpid(), self._pid):
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(root)
                for one in (process, *process.children(recursive=True)):
                    with contextlib.suppress(psutil.Error):
                        times = one.cpu_times()
                        mine[one.pid] = times.user + times.system
        return mine


def _busy_s() -> float:
    times = psutil.cpu_times()
    stolen = getattr(times, "steal", 0.0)
    return float(times.user + times.system + getattr(times, "nice", 0.0) + getattr(times, "irq", 0.0) + stolen)


def _throttled() -> tuple[int, int]:
    """(periods, throttled periods) of this cgroup; zeros where it has no quota."""
    try:
        lines = dict(line.split() for line in _CPU_STAT.read_text().splitlines())
    except (OSError, ValueError):
        return 0, 0
    return int(lines.get("nr_periods", 0)), int(lines.get("nr_throttled", 0))
