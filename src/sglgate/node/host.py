"""The host's own figures, from /proc and /sys: what moves, and how files of theirs are read."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from sglgate.node.facts import HostSample

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_CGROUPS: Final = ("/sys/fs/cgroup/cpu.stat", "/sys/fs/cgroup/cpu/cpu.stat")
#: The process that answers for a run, where several share it: set by the first of them.
OWNER: Final = "SGLGATE_OWNER"


def read_text(path: str) -> str | None:
    """A file of /proc or /sys; None where it is absent or may not be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def read_host_sample(*, watch_own: bool) -> HostSample:
    """Now. ``watch_own`` also adds up this process's tree: a walk over all processes, costly where there are many."""
    periods, throttled = _quota()
    return HostSample(
        cores=os.cpu_count() or 1,
        busy_s=_busy_s(read_text("/proc/stat") or ""),
        own_s=_tree_s(owner()) if watch_own else None,
        load_1min=os.getloadavg()[0],
        available_mib=meminfo_kib(read_text("/proc/meminfo") or "").get("MemAvailable", 0) // 1024,
        mhz=_mean_mhz(),
        quota_periods=periods,
        throttled_periods=throttled,
    )


def owner() -> int:
    """The process whose descendants are this run: the first of those that share it."""
    return int(os.environ.get(OWNER, os.getpid()))


def meminfo_kib(text: str) -> dict[str, int]:
    """``/proc/meminfo`` as a table: KiB, or a count for huge pages."""
    table = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        with contextlib.suppress(ValueError, IndexError):
            table[name] = int(rest.split()[0])
    return table


def _busy_s(stat: str) -> float:
    """Seconds that all cores worked, for the hypervisor's other guests too: those are lost to us alike."""
    # user nice system idle iowait irq softirq steal; guests are in user already.
    fields = stat.partition("\n")[0].split()[1:9]
    if len(fields) < 8:
        return 0.0
    user, nice, system, _, _, irq, softirq, steal = map(int, fields)
    return (user + nice + system + irq + softirq + steal) / _TICKS_PER_S


def _tree_s(root: int) -> float:
    """CPU seconds of a process and all its descendants, those that ended and were waited for included."""
    parents: dict[int, int] = {}
    spent: dict[int, int] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - a Path each costs ten times that
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                # The command in brackets may hold blanks and brackets: the rest begins after the last one.
                fields = file.read().rpartition(b")")[2].split()
            parents[int(name)] = int(fields[1])
            spent[int(name)] = sum(map(int, fields[11:15]))
    total = 0
    for pid in spent:
        here: int | None = pid
        while here and here != root:
            here = parents.get(here)
        total += spent[pid] if here == root else 0
    return total / _TICKS_PER_S


def is_own(pid: int, root: int) -> bool:
    """Whether a process descends from ``root``, or is it; one that cannot be seen is not."""
    here = pid
    while here > 1 and here != root:
        try:
            here = int(Path(f"/proc/{here}/stat").read_bytes().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return False
    return here == root


def _mean_mhz() -> float | None:
    # scaling_cur_freq asks the kernel's governor; /proc/cpuinfo would interrupt every core to find out.
    found = []
    for folder in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq"):
        with contextlib.suppress(OSError, ValueError):
            found.append(int(folder.read_text()) / 1000)
    return sum(found) / len(found) if found else None


def _quota() -> tuple[int, int]:
    """(periods, throttled periods) of this cgroup; zeros where it has no quota."""
    for path in _CGROUPS:
        with contextlib.suppress(ValueError):
            lines = dict(line.split() for line in (read_text(path) or "").splitlines())
            if "nr_periods" in lines:
                return int(lines["nr_periods"]), int(lines["nr_throttled"])
    return 0, 0
