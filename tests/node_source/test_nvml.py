"""NVML is asked through calls that nvidia-ml-py has, with as many arguments as they take; what a card lacks is None."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from sglgate.node.facts import Process, Remap
from sglgate.node.nvml import NoGpuError, read_nvml, read_samples

MIB = 1 << 20
ANSWERS: dict[str, Any] = {
    "nvmlInit": None,
    "nvmlShutdown": None,
    "nvmlSystemGetCudaDriverVersion": 13000,
    "nvmlSystemGetDriverVersion": "580.95.05",
    "nvmlDeviceGetCount": 1,
    "nvmlDeviceGetHandleByIndex": "handle",
    "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=97887 * MIB, used=4 * MIB),
    "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=99, memory=1),
    "nvmlDeviceGetPowerUsage": 31500,
    "nvmlDeviceGetTemperature": 31,
    "nvmlDeviceGetClockInfo": 2250,
    "nvmlDeviceGetCurrentClocksEventReasons": 4,
    "nvmlDeviceGetCurrPcieLinkGeneration": 5,
    "nvmlDeviceGetCurrPcieLinkWidth": 16,
    "nvmlDeviceGetPcieReplayCounter": 0,
    "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=2**22 + 7, usedGpuMemory=5 * MIB)],
    "nvmlDeviceGetGraphicsRunningProcesses": [SimpleNamespace(pid=2**22 + 7, usedGpuMemory=None)],
    "nvmlDeviceGetEccMode": [1, 1],
    "nvmlDeviceGetMigMode": [0, 0],
    "nvmlDeviceGetRemappedRows": (1, 2, 1, 0),
    "nvmlDeviceGetPersistenceMode": 1,
    "nvmlDeviceGetPciInfo": SimpleNamespace(busId="00000000:C8:00.0"),
    "nvmlDeviceGetName": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "nvmlDeviceGetUUID": "GPU-1",
    "nvmlDeviceGetCudaComputeCapability": (12, 0),
    "nvmlDeviceGetVbiosVersion": "98.02",
    "nvmlDeviceGetTotalEccErrors": 3,
    "nvmlDeviceGetMaxPcieLinkGeneration": 5,
    "nvmlDeviceGetMaxPcieLinkWidth": 16,
    "nvmlDeviceGetEnforcedPowerLimit": 600000,
    "nvmlDeviceGetPowerManagementDefaultLimit": 600000,
    "nvmlDeviceGetTemperatureThreshold": 95,
    "nvmlDeviceGetMaxClockInfo": 2430,
}
#: What a card may lack without being unfit to be read at all.
OPTIONAL = [
    name
    for name in ANSWERS
    if name.startswith("nvmlDeviceGet")
    and not name.endswith(("Processes", "Count", "ByIndex", "MemoryInfo", "PciInfo", "Name", "UUID", "Capability"))
]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    given = dict(ANSWERS)

    def pretend(name: str) -> Callable[..., Any]:
        signature = inspect.signature(getattr(pynvml, name))

        def call(*arguments: Any, **named: Any) -> Any:
            signature.bind(*arguments, **named)
            if isinstance(given[name], Exception):
                raise given[name]
            return given[name]

        return call

    for name in ANSWERS:
        monkeypatch.setattr(pynvml, name, pretend(name))
    return given


def test_a_card_is_read_whole(answers: dict[str, Any]) -> None:
    nvml = read_nvml()
    (card,) = nvml.gpus

    assert (nvml.driver, nvml.cuda) == ("580.95.05", "13.0")
    assert (card.bus_id, card.compute_capability, card.total_mib) == ("0000:c8:00.0", "12.0", 97887)
    assert card.remap == Remap(correctable=1, uncorrectable=2, pending=True, failed=False)
    assert (card.ecc, card.mig, card.persistence, card.ecc_uncorrected) == (True, False, True, 3)
    assert (card.power_limit_w, card.now.power_w) == (600.0, 31.5)
    assert card.now.processes == (Process(pid=2**22 + 7, name=None, used_mib=None),)
    assert read_samples() == (card.now,)


@pytest.mark.parametrize("name", OPTIONAL)
def test_what_a_card_does_not_tell_is_none_and_the_rest_is_read(answers: dict[str, Any], name: str) -> None:
    answers[name] = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    (card,) = read_nvml().gpus

    values = {**vars(card), **vars(card.now)}
    assert None in values.values()
    assert card.total_mib == 97887


@pytest.mark.parametrize(
    "name", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetPowerUsage"]
)
def test_a_driver_that_fails_is_no_gpu(answers: dict[str, Any], name: str) -> None:
    answers[name] = pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)

    with pytest.raises(NoGpuError):
        read_nvml()
