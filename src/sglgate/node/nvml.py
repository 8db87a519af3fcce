"""The GPUs of this machine, as NVML sees them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sglgate.config.profile import Machine
from sglgate.errors import UnfitError
from sglgate.node.facts import Card, GpuSample, Nvml, Process, Remap

_MIB = 1 << 20
T = TypeVar("T")


class NoGpuError(UnfitError):
    """NVML does not answer: no driver, or a broken one."""


@contextmanager
def session() -> Iterator[Any]:
    """NVML, started for as long as the block runs; starts nest.

    Raises:
        NoGpuError: there is no driver to ask, or it fails while asked.
    """
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise NoGpuError(f"no NVIDIA GPU can be seen: NVML says {error}") from None
    try:
        yield pynvml
    except pynvml.NVMLError as error:
        raise NoGpuError(f"NVML failed while the GPUs were read: {error}") from None
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def read_nvml() -> Nvml:
    """Everything, of every GPU, in NVML's order (that is by PCI address, whatever ``CUDA_VISIBLE_DEVICES`` says).

    Raises:
        NoGpuError: there is no driver to ask, or it fails while asked.
    """
    with session() as nvml:
        cuda = nvml.nvmlSystemGetCudaDriverVersion()
        cards = [_card(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
        return Nvml(
            driver=str(nvml.nvmlSystemGetDriverVersion()),
            cuda=f"{cuda // 1000}.{cuda % 1000 // 10}",
            cards={str(card.index): card for card in cards},
        )


def read_samples() -> tuple[GpuSample, ...]:
    """What moves, of every GPU.

    Raises:
        NoGpuError: as :func:`read_nvml`.
    """
    with session() as nvml:
        return tuple(
            _sample(nvml, index, nvml.nvmlDeviceGetHandleByIndex(index)) for index in range(nvml.nvmlDeviceGetCount())
        )


def _sample(nvml: Any, index: int, handle: Any) -> GpuSample:
    def ask(call: Callable[..., T], *arguments: Any) -> T | None:
        return _or_none(nvml, call, handle, *arguments)

    utilization = ask(nvml.nvmlDeviceGetUtilizationRates)
    power_mw = ask(nvml.nvmlDeviceGetPowerUsage)
    running = [
        *nvml.nvmlDeviceGetComputeRunningProcesses(handle),
        *nvml.nvmlDeviceGetGraphicsRunningProcesses(handle),
    ]
    return GpuSample(
        index=index,
        used_mib=_memory(nvml, handle).used // _MIB,
        utilization_pct=utilization.gpu if utilization is not None else None,
        power_w=power_mw / 1000 if power_mw is not None else None,
        temperature_c=ask(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
        sm_mhz=ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
        memory_mhz=ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_MEM),
        reasons=ask(nvml.nvmlDeviceGetCurrentClocksEventReasons),
        pcie_generation=ask(nvml.nvmlDeviceGetCurrPcieLinkGeneration),
        pcie_width=ask(nvml.nvmlDeviceGetCurrPcieLinkWidth),
        pcie_replays=ask(nvml.nvmlDeviceGetPcieReplayCounter),
        processes=tuple(
            # A process may be listed under both kinds.
            {
                p.pid: Process(
                    pid=p.pid, name=_command(p.pid), used_mib=p.usedGpuMemory // _MIB if p.usedGpuMemory else None
                )
                for p in running
            }.values()
        ),
    )


def _card(nvml: Any, index: int) -> Card:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)

    def ask(call: Callable[..., T], *arguments: Any) -> T | None:
        return _or_none(nvml, call, handle, *arguments)

    def watts(milliwatts: int | None) -> float | None:
        return milliwatts / 1000 if milliwatts is not None else None

    ecc, mig, rows = (
        ask(nvml.nvmlDeviceGetEccMode),
        ask(nvml.nvmlDeviceGetMigMode),
        ask(nvml.nvmlDeviceGetRemappedRows),
    )
    persistence = ask(nvml.nvmlDeviceGetPersistenceMode)
    # NVML writes the PCI domain with eight digits, the kernel with four.
    domain, _, rest = str(nvml.nvmlDeviceGetPciInfo(handle).busId).lower().partition(":")
    return Card(
        index=index,
        name=str(nvml.nvmlDeviceGetName(handle)),
        uuid=str(nvml.nvmlDeviceGetUUID(handle)),
        bus_id=f"{domain[-4:]}:{rest}",
        compute_capability=".".join(map(str, nvml.nvmlDeviceGetCudaComputeCapability(handle))),
        total_mib=_memory(nvml, handle).total // _MIB,
        vbios=ask(nvml.nvmlDeviceGetVbiosVersion),
        persistence=bool(persistence) if persistence is not None else None,
        mig=bool(mig[0]) if mig is not None else None,
        ecc=bool(ecc[0]) if ecc is not None else None,
        ecc_uncorrected=ask(
            nvml.nvmlDeviceGetTotalEccErrors, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        ),
        remap=Remap(correctable=rows[0], uncorrectable=rows[1], pending=bool(rows[2]), failed=bool(rows[3]))
        if rows is not None
        else None,
        pcie_generation_max=ask(nvml.nvmlDeviceGetMaxPcieLinkGeneration),
        pcie_width_max=ask(nvml.nvmlDeviceGetMaxPcieLinkWidth),
        power_limit_w=watts(ask(nvml.nvmlDeviceGetEnforcedPowerLimit)),
        power_limit_default_w=watts(ask(nvml.nvmlDeviceGetPowerManagementDefaultLimit)),
        slowdown_c=ask(nvml.nvmlDeviceGetTemperatureThreshold, nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN),
        sm_mhz_max=ask(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_SM),
        now=_sample(nvml, index, handle),
    )


def _memory(nvml: Any, handle: Any) -> Any:
    # The first version of the call counts what the firmware reserves as used: an idle card would look busy.
    return nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)


def _or_none(nvml: Any, call: Callable[..., T], *arguments: Any) -> T | None:
    try:
        return call(*arguments)
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_NoPermission, nvml.NVMLError_FunctionNotFound):
        return None


def _command(pid: int) -> str | None:
    # Only the program: its arguments may hold secrets.
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def what_is_missing(machine: Machine, gpus: Sequence[Card]) -> list[str]:
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
