"""What the GPUs are and how they are set: the right ones, their driver, idle, whole, alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from sglgate.config import Profile
from sglgate.config.profile import Bounds
from sglgate.node.facts import Card, GpuSample, Nvml, ProbeAnswer, Sample, ToolOutput
from sglgate.node.load import brakes
from sglgate.node.nvml import what_is_missing
from sglgate.preflight.check import Check, count
from sglgate.telemetry.facts import foreign_cpu_share

#: Errors that a program's own mistake causes: the card is as good as before. Every other Xid is held against it.
APPLICATION_XIDS: Final = frozenset({13, 31, 43, 45, 68, 69})
_XID: Final = re.compile(r"NVRM: Xid \(PCI:(?P<pci>[0-9a-fA-F:.]+)\): (?P<code>\d+)(?P<text>.*)")
_AER: Final = re.compile(r"(?:AER|PCIe Bus Error).*(?:[Uu]ncorrect\w*|[Ff]atal)")


def right_gpus(nvml: Nvml, profile: Profile) -> Check:
    """Kind, number and memory."""
    return count(
        "GPUs that are not what the profile needs",
        what_is_missing(profile.machine, nvml.gpus),
        "a card that is absent has fallen off the bus (see the kernel log; power-cycle the node); MIG must be off "
        "(nvidia-smi -mig 0); on a smaller host take the profile of its size",
        n=profile.machine.gpus,
        detail={"gpus": [f"{card.index}: {card.name}, {card.total_mib} MiB, {card.bus_id}" for card in nvml.gpus]},
    )


def settings(cards: Sequence[Card], bounds: Bounds) -> Check:
    """Persistence, MIG, ECC and the power limit: as demanded, and the same on all cards."""
    problems = []
    for card in cards:
        if card.mig:
            problems.append(f"GPU {card.index}: MIG is on")
        if bounds.persistence is not None and card.persistence is not bounds.persistence:
            problems.append(f"GPU {card.index}: persistence mode is {_on(card.persistence)}")
        if bounds.ecc is not None and card.ecc is not bounds.ecc:
            problems.append(f"GPU {card.index}: ECC is {_on(card.ecc)}")
        if bounds.min_power_limit_w and (card.power_limit_w or 0) < bounds.min_power_limit_w:
            problems.append(f"GPU {card.index}: power limit {card.power_limit_w} W, not {bounds.min_power_limit_w:g}")
    for what, values in {
        "power limits": {str(card.power_limit_w) for card in cards},
        "ECC modes": {str(card.ecc) for card in cards},
        "VBIOS versions": {str(card.vbios) for card in cards},
    }.items():
        if len(values) > 1:
            problems.append(f"the cards have different {what}: {', '.join(sorted(values))}")
    detail = {
        str(card.index): {"ecc": card.ecc, "power_limit_w": card.power_limit_w, "persistence": card.persistence}
        for card in cards
    }
    remedy = "nvidia-smi -pm 1; nvidia-smi -pl WATTS for all cards alike; nvidia-smi -e 0|1 and a reset for ECC"
    return count("GPUs set otherwise than they must be", problems, remedy, n=len(cards), detail=detail)


def driver(nvml: Nvml, bounds: Bounds, torch_cuda: str | None) -> Check:
    """The driver's version within its range, and new enough for the CUDA that the stack's torch was built with."""
    problems = []
    if bounds.min_driver and _version(nvml.driver) < _version(bounds.min_driver):
        problems.append(f"driver {nvml.driver} is older than {bounds.min_driver}")
    if bounds.max_driver and _version(nvml.driver) > _version(bounds.max_driver):
        problems.append(f"driver {nvml.driver} is newer than {bounds.max_driver}")
    if torch_cuda in (None, "", "none"):
        problems.append("the stack's torch was built without CUDA")
    # Within one major version an older driver serves a newer CUDA, but not what needs new driver calls: NVIDIA's
    # "minor version compatibility". A newer major version never runs.
    elif _version(torch_cuda)[0] > _version(nvml.cuda)[0]:
        problems.append(f"torch was built for CUDA {torch_cuda}, driver {nvml.driver} serves up to {nvml.cuda}")
    detail = {"driver": nvml.driver, "driver_cuda": nvml.cuda, "torch_cuda": torch_cuda}
    remedy = "install a driver of the range that the profile names, or a stack built for the driver's CUDA"
    return count("driver and CUDA that do not fit", problems, remedy, n=1, detail=detail)


def idle(samples: Sequence[Sample], bounds: Bounds, gpus: int) -> list[Check]:
    """No process, no memory, no work on any GPU over all samples; and the host's cores free enough."""
    checks = []
    if gpus:
        looks = [gpu for sample in samples for gpu in sample.gpus if gpu.index < gpus]
        problems = [_busy(index, [g for g in looks if g.index == index], bounds) for index in range(gpus)]
        remedy = (
            "end the processes that are named; utilisation without a process is the wedged state after a hung "
            "collective: reset the card (nvidia-smi --gpu-reset -i N) or the node"
        )
        found = [problem for problem in problems if problem is not None]
        checks.append(count("GPUs that are not idle", found, remedy, n=len(looks)))
    share = foreign_cpu_share(samples)
    checks.append(
        Check(
            "CPU time of other programs",
            share,
            bounds.max_foreign_cpu_share,
            "at_most",
            "of all cores",
            "end what else runs on this host, or judge when it is done",
            () if share is None else (f"other programs use {share:.0%} of all cores",),
            n=max(0, len(samples) - 1),
        )
    )
    return checks


def _busy(index: int, looks: Sequence[GpuSample], bounds: Bounds) -> str | None:
    if not looks:
        return f"GPU {index} was not seen"
    processes = {p.pid: p for look in looks for p in look.processes}
    named = [f"{p.name or '?'} (pid {p.pid}, {p.used_mib or '?'} MiB)" for p in processes.values()]
    used = max(look.used_mib for look in looks)
    utilization = [look.utilization_pct for look in looks]
    if named:
        return f"GPU {index} has {', '.join(named)}"
    if any(value is None for value in utilization):
        return f"GPU {index} does not tell its utilisation"
    # The least of all looks: a moment of work is no load.
    working = min(value for value in utilization if value is not None)
    if working > bounds.max_idle_utilization_pct:
        watts = max((look.power_w or 0 for look in looks), default=0)
        return f"GPU {index} works at {working} % ({watts:.0f} W, {used} MiB) without any process: it is wedged"
    if used > bounds.max_idle_mib:
        return f"GPU {index} holds {used} MiB without any process"
    return None


def cool(cards: Sequence[Card], probed: ProbeAnswer, bounds: Bounds) -> Check:
    """Temperature at rest, and no brake on the clocks at rest or under load."""
    problems = []
    detail: dict[str, Any] = {}
    for card in cards:
        loaded = probed.under_load.get(str(card.index))
        detail[str(card.index)] = {
            "idle_c": card.now.temperature_c,
            "loaded": asdict(loaded) if loaded else None,
        }
        if card.now.temperature_c is None or card.now.temperature_c > bounds.max_idle_c:
            problems.append(f"GPU {card.index}: {card.now.temperature_c} degrees at rest, not {bounds.max_idle_c}")
        held = brakes(card.now.reasons)
        if loaded is None:
            problems.append(f"GPU {card.index} was never seen under load")
        else:
            held = list(dict.fromkeys([*held, *brakes(loaded.reasons)]))
            hot = loaded.temperature_c_max
            if card.slowdown_c is not None and hot is not None and hot >= card.slowdown_c:
                problems.append(f"GPU {card.index}: {hot} degrees under load, it slows down at {card.slowdown_c}")
        if held:
            problems.append(f"GPU {card.index}: {', '.join(held)}")
    remedy = "look at fans, airflow and inlet temperature (thermal), at power supplies and their cables (power brake)"
    return count("GPUs that are hot or held back", problems, remedy, n=len(cards), detail=detail)


def whole(cards: Sequence[Card]) -> Check:
    """No uncorrected memory error since the driver came up, no row remap that waits or failed."""
    problems = []
    for card in cards:
        if card.ecc and card.ecc_uncorrected is None:
            problems.append(f"GPU {card.index} does not tell its ECC errors")
        if card.ecc_uncorrected:
            problems.append(f"GPU {card.index}: {card.ecc_uncorrected} uncorrected ECC errors")
        if card.remap is not None and card.remap.failed:
            problems.append(f"GPU {card.index}: a row could not be remapped")
        elif card.remap is not None and card.remap.pending:
            problems.append(f"GPU {card.index}: a row remap waits for a reset")
    detail = {
        str(card.index): {
            "ecc": card.ecc,
            "uncorrected": card.ecc_uncorrected,
            "remap": asdict(card.remap) if card.remap else None,
        }
        for card in cards
    }
    remedy = "reset the card (nvidia-smi --gpu-reset -i N) for a pending remap; a failed remap is a card to return"
    return count("GPUs with memory errors", problems, remedy, n=len(cards), detail=detail)


def kernel_log(log: ToolOutput) -> Check:
    """No Xid that is the hardware's, no uncorrected PCIe error, since boot. A log that cannot be read is no good sign.

    Format: ``NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.``
    """
    remedy = "power-cycle the node; if it comes back, the card, its riser or its power cable is at fault"
    if log.error is not None:
        unread = f"the kernel log cannot be read: {log.error}"
        remedy = "let this user read it: group systemd-journal, or sysctl kernel.dmesg_restrict=0"
        return count("kernel log", [unread], remedy, n=1)
    problems: list[str] = []
    other: list[str] = []
    for line in log.output.splitlines():
        if (xid := _XID.search(line)) is not None:
            text = f"Xid {xid['code']} on {xid['pci']}{xid['text'][:120]}"
            (other if int(xid["code"]) in APPLICATION_XIDS else problems).append(text)
        elif _AER.search(line):
            problems.append(line.strip()[:160])
    detail = {"application_errors": other[-20:]}
    lines = len(log.output.splitlines())
    return count("hardware errors in the kernel log", list(dict.fromkeys(problems)), remedy, n=lines, detail=detail)


def link(cards: Sequence[Card], probed: ProbeAnswer, bounds: Bounds) -> Check:
    """Generation and width under load: an idle card lets its link sleep. No packet was sent twice meanwhile."""
    problems, detail = [], {}
    for card in cards:
        loaded = probed.under_load.get(str(card.index))
        if loaded is None:
            problems.append(f"GPU {card.index} was never seen under load")
            continue
        names = ("pcie_generation_min", "pcie_width_min", "pcie_replays")
        detail[str(card.index)] = {name: getattr(loaded, name) for name in names}
        for what, value, wanted in (
            ("generation", loaded.pcie_generation_min, bounds.pcie_generation),
            ("width", loaded.pcie_width_min, bounds.pcie_width),
        ):
            if wanted is not None and (value is None or value < wanted):
                problems.append(f"GPU {card.index}: PCIe {what} {value or 'unknown'} under load, not {wanted}")
        if loaded.pcie_replays:
            problems.append(f"GPU {card.index}: {loaded.pcie_replays} PCIe replays within the probe")
    remedy = "reseat the card and its riser; check the slot's lanes and generation in the BIOS; look for AER errors"
    return count("PCIe links below par", problems, remedy, n=len(cards), detail=detail)


def _on(value: bool | None) -> str:
    return "unknown" if value is None else "on" if value else "off"


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))
