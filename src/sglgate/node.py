"""Is this machine what the profile says? The first question of every run, answered before anything is launched."""

from __future__ import annotations

import platform
from typing import Any

import psutil

from sglgate.config import Profile
from sglgate.errors import UnfitError
from sglgate.gpus import NoGpuError, read_gpus, what_is_missing

_GIB = 1 << 30


def require_node(profile: Profile) -> None:
    """Return when the machine has what ``profile`` needs.

    Raises:
        UnfitError: with everything that is missing, in one text.
    """
    missing: list[str] = []
    if profile.needs_gpu:
        try:
            missing += what_is_missing(profile.machine, read_gpus())
        except NoGpuError as error:
            missing.append(f"{profile.machine.gpus} GPUs needed: {error}")
    ram_gib = psutil.virtual_memory().total / _GIB
    if ram_gib < profile.machine.min_ram_gib:
        missing.append(f"{profile.machine.min_ram_gib:g} GiB of memory needed, {ram_gib:.1f} found")
    if missing:
        raise UnfitError(f"profile {profile.name!r} does not fit this machine: {'; '.join(missing)}")


def describe_node() -> dict[str, Any]:
    """What a reader of the report needs to know of the machine; no host name, no user."""
    try:
        gpus = [f"{gpu.name}, {gpu.total_mib} MiB, sm_{gpu.compute_capability}" for gpu in read_gpus()]
    except NoGpuError:
        gpus = []
    return {
        "cpu": _cpu_name(),
        "cores": psutil.cpu_count(logical=True),
        "ram_gib": round(psutil.virtual_memory().total / _GIB, 1),
        "kernel": platform.release(),
        "gpus": gpus,
    }


def _cpu_name() -> str:
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:  # noqa: PTH123 - not a real file
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
