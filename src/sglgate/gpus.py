"""The GPUs of this machine, as NVML sees them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sglgate.config.profile import Machine
from sglgate.errors import UnfitError

_MIB = 1 << 20


class NoGpuError(UnfitError):
    """NVML does not answer: no driver, or a broken one."""


@dataclass(frozen=True)
class Gpu:
    """One card: what it is and who is on it. ``processes`` maps pid to MiB (None where the driver hides it)."""

    index: int
    name: str
    uuid: str
    compute_capability: str
    total_mib: int
    used_mib: int
    processes: dict[int, int | None]


@contextmanager
def _nvml() -> Iterator[Any]:
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise NoGpuError(f"no NVIDIA GPU can be seen: NVML says {error}") from None
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def read_gpus() -> list[Gpu]:
    """Every GPU, in NVML's order (that is by PCI address, whatever ``CUDA_VISIBLE_DEVICES`` says).

    Raises:
        NoGpuError: there is no driver to ask, or it fails while asked.
    """
    with _nvml() as nvml:
        try:
            return [_read(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
        except nvml.NVMLError as error:
            raise NoGpuError(f"NVML failed while the GPUs were read: {error}") from None


def _read(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    processes = [
        *nvml.nvmlDeviceGetComputeRunningProcesses(handle),
        *nvml.nvmlDeviceGetGraphicsRunningProcesses(handle),
    ]
    return Gpu(
        index=index,
        name=str(nvml.nvmlDeviceGetName(handle)),
        uuid=str(nvml.nvmlDeviceGetUUID(handle)),
        compute_capability=".".join(map(str, nvml.nvmlDeviceGetCudaComputeCapability(handle))),
        total_mib=memory.total // _MIB,
        used_mib=memory.used // _MIB,
        processes={p.pid: p.usedGpuMemory // _MIB if p.usedGpuMemory else None for p in processes},
    )


def what_is_missing(machine: Machine, gpus: list[Gpu]) -> list[str]:
    """Every way in which ``gpus`` are not what ``machine`` demands, in words; empty when they are."""
    missing = []
    if len(gpus) < machine.gpus:
        missing.append(f"{machine.gpus} GPUs needed, {len(gpus)} found")
    for gpu in gpus[: machine.gpus]:
        wrong = []
        if machine.compute_capability not in (None, gpu.compute_capability):
            wrong.append(f"compute capability {gpu.compute_capability}, not {machine.compute_capability}")
        if machine.gpu_name is not None and machine.gpu_name not in gpu.name:
            wrong.append(f"not a {machine.gpu_name}")
        # Drivers reserve a varying share: a card counts as the right size from 98 % on.
        if machine.gpu_memory_mib is not None and gpu.total_mib < 0.98 * machine.gpu_memory_mib:
            wrong.append(f"{gpu.total_mib} MiB, not {machine.gpu_memory_mib}")
        if wrong:
            missing.append(f"GPU {gpu.index} ({gpu.name}): {'; '.join(wrong)}")
    return missing
