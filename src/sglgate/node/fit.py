"""Is this machine what the profile says? The first question of every run, answered before anything is launched."""

from __future__ import annotations

from typing import Any

from sglgate.config import Profile
from sglgate.errors import UnfitError
from sglgate.node.host import meminfo_kib
from sglgate.node.nvml import NoGpuError, what_is_missing
from sglgate.node.source import NodeSource


def require_node(profile: Profile, source: NodeSource) -> None:
    """Return when the machine has what ``profile`` needs.

    Raises:
        NoGpuError: the profile needs GPUs and none answers: nothing at all can be asked here.
        UnfitError: with everything that is missing, in one text.
    """
    missing: list[str] = []
    if profile.needs_gpu:
        try:
            missing += what_is_missing(profile.machine, source.nvml().gpus)
        except NoGpuError as error:
            raise NoGpuError(
                f"profile {profile.name!r} does not fit this machine: {profile.machine.gpus} GPUs needed: {error}"
            ) from None
    ram_gib = ram_total_gib(source)
    if ram_gib is None or ram_gib < profile.machine.min_ram_gib:
        found = "unknown" if ram_gib is None else f"{ram_gib:.1f} found"
        missing.append(f"{profile.machine.min_ram_gib:g} GiB of memory needed, {found}")
    if missing:
        raise UnfitError(f"profile {profile.name!r} does not fit this machine: {'; '.join(missing)}")


def ram_total_gib(source: NodeSource) -> float | None:
    """Host memory; None where /proc/meminfo is not there."""
    kib = meminfo_kib(source.text("/proc/meminfo") or "").get("MemTotal")
    return None if kib is None else kib / (1 << 20)


def describe_node(source: NodeSource) -> dict[str, Any]:
    """What a reader of the report needs to know of the machine; no host name, no user."""
    try:
        gpus = [f"{gpu.name}, {gpu.total_mib} MiB, sm_{gpu.compute_capability}" for gpu in source.nvml().gpus]
    except NoGpuError:
        gpus = []
    cpus = source.text("/proc/cpuinfo") or ""
    names = [line.partition(":")[2].strip() for line in cpus.splitlines() if line.startswith("model name")]
    ram_gib = ram_total_gib(source)
    return {
        "cpu": names[0] if names else "unknown",
        "cores": sum(line.startswith("processor") for line in cpus.splitlines()),
        "ram_gib": round(ram_gib, 1) if ram_gib is not None else None,
        "kernel": (source.text("/proc/sys/kernel/osrelease") or "unknown").strip(),
        "gpus": gpus,
    }
