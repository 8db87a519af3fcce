"""GPUs while they work: idle cards slow their clocks and their link down, and would be judged wrong."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Final

from sglgate.node.facts import GpuSample, UnderLoad

#: From this utilisation on a GPU counts as busy, percent: its clocks and its link are awake then.
BUSY_PCT: Final = 10
#: NVML's reasons for a slow clock that are a fault: hardware slowdown, software and hardware thermal, power brake.
#: Idle, the power cap of a card at its limit, and clocks that a person set are none.
BRAKES: Final = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}


def brakes(reasons: int | None) -> list[str]:
    """The faults in a mask of reasons, in words; a mask that is not known is one too."""
    if reasons is None:
        return ["reasons unknown"]
    return [name for bit, name in BRAKES.items() if reasons & bit]


def is_busy(gpu: GpuSample) -> bool:
    """Whether a GPU worked."""
    return gpu.utilization_pct is not None and gpu.utilization_pct >= BUSY_PCT


def under_load(looks: Iterable[Sequence[GpuSample]]) -> dict[str, UnderLoad]:
    """Each GPU over the looks at which it was busy, by index as text; GPUs that never were are not in it."""
    by_gpu: dict[int, list[GpuSample]] = {}
    for look in looks:
        for gpu in look:
            by_gpu.setdefault(gpu.index, []).append(gpu)
    found = {}
    for index, all_samples in by_gpu.items():
        busy = [gpu for gpu in all_samples if is_busy(gpu)]
        if not busy:
            continue
        # Or of all: one brake in any look counts; one unknown mask makes all unknown.
        reasons: int | None = 0
        for gpu in busy:
            reasons = None if reasons is None or gpu.reasons is None else reasons | gpu.reasons
        clocks = [gpu.sm_mhz for gpu in busy if gpu.sm_mhz is not None]
        replays = [gpu.pcie_replays for gpu in all_samples if gpu.pcie_replays is not None]
        found[str(index)] = UnderLoad(
            samples=len(busy),
            sm_mhz=statistics.median(clocks) if clocks else None,
            power_w_max=max((gpu.power_w for gpu in busy if gpu.power_w is not None), default=None),
            temperature_c_max=max((gpu.temperature_c for gpu in busy if gpu.temperature_c is not None), default=None),
            reasons=reasons,
            # The best that was seen: a look may fall on the moment in which a link wakes up.
            pcie_generation_min=_settled([gpu.pcie_generation for gpu in busy]),
            pcie_width_min=_settled([gpu.pcie_width for gpu in busy]),
            pcie_replays=replays[-1] - replays[0] if replays else None,
        )
    return found


def _settled(values: Sequence[int | None]) -> int | None:
    """The least value once the link is awake: the first look is left out where there are more."""
    known = [value for value in (values[1:] or values) if value is not None]
    return min(known, default=None)
