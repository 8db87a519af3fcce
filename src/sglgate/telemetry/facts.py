"""From samples of a time window to the facts that void rules judge. Pure: the same samples, the same facts."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Collection, Sequence

from sglgate.decision.blocks import Fact
from sglgate.node.facts import GpuSample, Sample
from sglgate.node.load import brakes, is_busy


def void_facts(
    samples: Sequence[Sample], *, gpus: Collection[int], own_pids: Collection[int], expected_mhz: float | None
) -> dict[str, Fact]:
    """Facts of one window. One that the samples do not tell is left out, and voids.

    Args:
        samples: in order; the first and the last are the window's ends.
        gpus: indices of the lane's GPUs; none on the CPU lane.
        own_pids: processes that belong to the run.
        expected_mhz: SM clock that a GPU of this node holds under load; None where it is not known yet.
    """
    facts = _gpu_facts(samples, gpus, own_pids, expected_mhz) if gpus else _host_facts(samples)
    return {name: value for name, value in facts.items() if value is not None}


def foreign_cpu_share(samples: Sequence[Sample]) -> float | None:
    """CPU time of all but our own processes, from the first sample to the last, over that of all cores."""
    if len(samples) < 2:
        return None
    first, last = samples[0], samples[-1]
    if first.host.own_s is None or last.host.own_s is None or last.t_s <= first.t_s:
        return None
    busy_s, own_s = last.host.busy_s - first.host.busy_s, last.host.own_s - first.host.own_s
    share = (busy_s - own_s) / ((last.t_s - first.t_s) * last.host.cores)
    # The kernel counts in ticks and the two clocks are read one after the other: a full machine may show 1.01.
    return min(1.0, max(0.0, share))


def loaded_mhz(samples: Sequence[Sample], gpus: Collection[int]) -> float | None:
    """The slowest GPU's mean SM clock over the samples in which it was busy; None where one of them never was."""
    means = []
    for index in gpus:
        clocks = [gpu.sm_mhz for gpu in _of(samples, index) if is_busy(gpu) and gpu.sm_mhz is not None]
        if not clocks:
            return None
        means.append(statistics.fmean(clocks))
    return min(means, default=None)


def _host_facts(samples: Sequence[Sample]) -> dict[str, Fact | None]:
    # A machine without a CPU quota has no periods, and nothing throttles it.
    share: float | None = 0.0 if len(samples) > 1 else None
    if len(samples) > 1 and (periods := samples[-1].host.quota_periods - samples[0].host.quota_periods) > 0:
        share = (samples[-1].host.throttled_periods - samples[0].host.throttled_periods) / periods
    return {"foreign_cpu_share": foreign_cpu_share(samples), "throttled_share": share}


def _gpu_facts(
    samples: Sequence[Sample], gpus: Collection[int], own_pids: Collection[int], expected_mhz: float | None
) -> dict[str, Fact | None]:
    seen = [[gpu for gpu in sample.gpus if gpu.index in gpus] for sample in samples]
    if not seen or any(len(look) < len(gpus) for look in seen):
        # A GPU that is missing from one look may have fallen off the bus: nothing is known of the window.
        return {}
    clock = loaded_mhz(samples, gpus)
    return {
        "throttled_share": sum(any(brakes(gpu.reasons) for gpu in look) for look in seen) / len(seen),
        "foreign_processes": len({p.pid for look in seen for gpu in look for p in gpu.processes} - set(own_pids)),
        "link_width_changes": sum(_link_changes(_of(samples, index)) for index in gpus),
        "sm_clock_share": None if clock is None or not expected_mhz else clock / expected_mhz,
    }


def _link_changes(looks: Sequence[GpuSample]) -> int:
    """Changes between looks at which the GPU was busy: an idle link goes to sleep, and that is no fault."""
    return sum(
        (a.pcie_generation, a.pcie_width) != (b.pcie_generation, b.pcie_width)
        for a, b in itertools.pairwise(looks)
        if is_busy(a) and is_busy(b)
    )


def _of(samples: Sequence[Sample], index: int) -> list[GpuSample]:
    return [gpu for sample in samples for gpu in sample.gpus if gpu.index == index]
