"""The paths between GPUs: what the IOMMU and bridges do to them, whether data arrives, how fast, and collectives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sglgate.config.profile import Bounds
from sglgate.node.facts import Card, ProbeAnswer, ToolOutput
from sglgate.node.source import NodeSource
from sglgate.preflight.check import Check, count

_DEVICE = re.compile(r"^(?P<bdf>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (?P<kind>[^:]+):")
_BUSES = re.compile(r"Bus: primary=[0-9a-f]{2}, secondary=(?P<first>[0-9a-f]{2}), subordinate=(?P<last>[0-9a-f]{2})")


@dataclass
class Bridge:
    """A PCI bridge of ``lspci -D -vvv``: the buses below it, and its ACS controls that are on (None: not told)."""

    bdf: str
    first_bus: int = -1
    last_bus: int = -1
    acs: list[str] | None = field(default=None)

    def leads_to(self, bus_id: str) -> bool:
        """Whether a device lies below it."""
        domain, bus, _ = bus_id.split(":")
        return self.bdf.startswith(domain) and self.first_bus <= int(bus, 16) <= self.last_bus


def read_bridges(text: str) -> tuple[list[Bridge], bool]:
    """Bridges, and whether capabilities could be read at all: without root lspci says ``<access denied>``."""
    bridges: list[Bridge] = []
    here: Bridge | None = None
    for line in text.splitlines():
        if (device := _DEVICE.match(line)) is not None:
            here = Bridge(device["bdf"]) if "bridge" in device["kind"].lower() else None
            if here is not None:
                bridges.append(here)
        elif here is not None and (buses := _BUSES.search(line)) is not None:
            here.first_bus, here.last_bus = int(buses["first"], 16), int(buses["last"], 16)
        elif here is not None and "ACSCtl:" in line:
            here.acs = [word[:-1] for word in line.partition("ACSCtl:")[2].split() if word.endswith("+")]
    return bridges, "<access denied>" not in text


def iommu(cards: Sequence[Card], source: NodeSource, bounds: Bounds) -> list[Check]:
    """An IOMMU that translates what GPUs send, and bridges that send it up to the root: both break or slow peers.

    ACS is only told to root; where it is not, the peer check decides alone, and this one says so.
    """
    kinds = {card.index: _iommu_kind(card, source) for card in cards}
    problems = [
        f"GPU {index} is in a translating domain ({kind})" for index, kind in kinds.items() if _translates(kind)
    ]
    acs, told = _acs(source.tool("lspci"), cards)
    detail = {"iommu": kinds, "acs": acs if told else "not readable: run as root to see it; the peer check decides"}
    checks = [
        count(
            "GPUs behind a translating IOMMU",
            [] if bounds.translating_iommu else problems,
            "iommu=pt on the kernel's command line, or the IOMMU off in the BIOS, unless virtual machines need it",
            n=len(cards),
            detail=detail,
        )
    ]
    if told:
        redirecting = [f"{bdf} above GPUs redirects peer traffic ({', '.join(on)})" for bdf, on in acs.items() if on]
        remedy = (
            "ACS off in the BIOS, pci=noacs where the kernel knows it, or setpci -s BDF ECAP_ACS+6.w=0000 after "
            "each boot"
        )
        checks.append(count("bridges that redirect peer traffic", redirecting, remedy, n=len(acs) or len(cards)))
    return checks


def _iommu_kind(card: Card, source: NodeSource) -> str:
    """``identity``, ``DMA``, ``DMA-FQ``; ``none`` without an IOMMU; ``unknown`` where /sys does not show the card."""
    folder = f"/sys/bus/pci/devices/{card.bus_id}"
    absent = "unknown" if source.text(f"{folder}/numa_node") is None else "none"
    return (source.text(f"{folder}/iommu_group/type") or absent).strip()


def _translates(kind: str) -> bool:
    return kind not in ("none", "identity")


def _acs(lspci: ToolOutput, cards: Sequence[Card]) -> tuple[dict[str, list[str]], bool]:
    """The redirecting ACS controls of each bridge above a GPU."""
    if lspci.error is not None:
        return {}, False
    bridges, told = read_bridges(lspci.output)
    above = [bridge for bridge in bridges if any(bridge.leads_to(card.bus_id) for card in cards)]
    redirecting = ("ReqRedir", "CmpltRedir", "UpstreamFwd")
    return {b.bdf: [name for name in b.acs or [] if name in redirecting] for b in above}, told


def peers(probed: ProbeAnswer, gpus: int, bounds: Bounds) -> list[Check]:
    """Every ordered pair: written and verified, by copy and by kernel; then bandwidth and the time of a small copy."""
    pairs: dict[str, Any] = (probed.result or {}).get("pairs", {})
    wanted = [f"{a}>{b}" for a in range(gpus) for b in range(gpus) if a != b]
    problems = [f"the probe: {probed.error}"] if probed.error else []
    slow, late = [], []
    for name in wanted:
        pair = pairs.get(name)
        if pair is None:
            problems.append(f"{name} was not tried")
            continue
        problems += [f"{name}: {text}" for text in _broken(pair, bounds)]
        speed, copy_us = pair.get("gb_per_s"), pair.get("small_copy_us")
        if speed is None or speed < bounds.min_peer_gb_per_s:
            slow.append(f"{name}: {speed} GB/s")
        if bounds.max_peer_copy_us is not None and (copy_us is None or copy_us > bounds.max_peer_copy_us):
            late.append(f"{name}: {copy_us} us")
    broken = (
        "switch the IOMMU's translation and ACS off (see that check); until then --disable-custom-all-reduce and "
        "NCCL_P2P_DISABLE=1, for capability bits say yes while data is lost"
    )
    narrow = (
        "a path through the CPU or another socket is slower by nature: compare with the topology, then the link check"
    )
    checks = [
        count("pairs over which data does not arrive", problems, broken, n=len(wanted)),
        count("pairs below the least bandwidth", slow, narrow, n=len(wanted), detail={"pairs": pairs}),
    ]
    if bounds.max_peer_copy_us is not None:
        checks.append(count("pairs whose small copies are late", late, narrow, n=len(wanted)))
    return checks


def _broken(pair: dict[str, Any], bounds: Bounds) -> list[str]:
    if pair.get("error"):
        return [pair["error"]]
    if not pair.get("can_access") and bounds.peer_access:
        return ["the driver denies peer access"]
    # A copy is staged through the host where peers are denied; a kernel's store has only the direct way.
    ways = ("copy", "kernel_write", "kernel_read") if pair.get("can_access") else ("copy",)
    return [
        f"{way.replace('_', ' ')} " + ("was not tried" if pair.get(way) is None else f"left {pair[way]} wrong bytes")
        for way in ways
        if pair.get(way) != 0
    ]


def collectives(probed: ProbeAnswer, ranks: int, without_p2p: ProbeAnswer | None) -> Check:
    """The sweep of one group: every size summed exactly, in time, on every rank.

    Args:
        without_p2p: the same with ``NCCL_P2P_DISABLE=1``, asked where the first failed: it tells whose fault it is.
    """
    problems = collective_problems(probed)
    if problems and without_p2p is not None:
        helps = not collective_problems(without_p2p)
        problems.append(
            "with NCCL_P2P_DISABLE=1 it runs" if helps else "NCCL_P2P_DISABLE=1 does not help: it is not the peer path"
        )
    result = probed.result or {}
    remedy = (
        "another NCCL release (some break on SM120 above 512 KiB, or hang); the IOMMU and ACS checks where peers "
        "are at fault; NCCL_P2P_DISABLE=1 until then, which costs bandwidth"
    )
    detail = {key: result.get(key) for key in ("backend", "version", "sizes")}
    tried = len(result.get("sizes", {}))
    return count(f"sizes that {ranks} ranks summed wrong, or not in time", problems, remedy, n=tried, detail=detail)


def collective_problems(probed: ProbeAnswer) -> list[str]:
    """What went wrong in one sweep."""
    result = probed.result or {}
    problems = [f"the probe: {probed.error}"] if probed.error else []
    if result.get("stuck_at_bytes") is not None:
        problems.append(f"stuck at {result['stuck_at_bytes']} bytes")
    problems += [f"rank {rank}: {text}" for rank, text in (result.get("errors") or {}).items()]
    for size, entry in (result.get("sizes") or {}).items():
        if entry["wrong_elements"]:
            problems.append(f"{size} bytes: {entry['wrong_elements']} wrong elements")
    if not problems and not result.get("finished"):
        problems.append("the sweep did not finish")
    return problems


def kernels(probed: ProbeAnswer, devices: Sequence[str]) -> Check:
    """The stack's own torch ran a kernel on every device, and its product was right."""
    result = probed.result or {}
    answers = result.get("devices", {})
    problems = [f"the probe: {probed.error}"] if probed.error else []
    for device in devices:
        answer = answers.get(device)
        if answer is None:
            problems.append(f"{device} was not tried")
        elif answer["error"]:
            problems.append(f"{device}: {answer['error']}")
        elif answer["wrong_elements"]:
            problems.append(f"{device}: {answer['wrong_elements']} wrong elements in a product of matrices")
    detail = {key: result.get(key) for key in ("torch", "cuda", "arches")}
    remedy = (
        '"no kernel image" means that this torch was not built for this GPU: take a build whose architectures name it '
        "(sm_120 for compute capability 12.0, CUDA 12.8 or newer); wrong results are a card to return"
    )
    return count("devices on which no kernel ran right", problems, remedy, n=len(devices), detail=detail)
