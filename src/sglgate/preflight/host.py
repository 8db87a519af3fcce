"""What the host must have: room, limits, whole models, and its GPUs spread over NUMA nodes as declared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sglgate.config.profile import Bounds
from sglgate.node.facts import Card, ModelFiles, Room
from sglgate.node.host import meminfo_kib
from sglgate.node.source import NodeSource
from sglgate.preflight.check import Check, count

_UNLIMITED_GIB = float("inf")


def room(disk: Room | None, meminfo: str | None, bounds: Bounds) -> list[Check]:
    """Disk where reports are written, and memory for a new process."""
    available = meminfo_kib(meminfo or "").get("MemAvailable")
    return [
        Check(
            "free disk for reports",
            disk.free_gib if disk else None,
            bounds.min_disk_gib,
            "at_least",
            "GiB",
            "remove old runs, or write elsewhere with --reports",
        ),
        Check(
            "memory that a new process can have",
            round(available / 2**20, 2) if available is not None else None,
            bounds.min_available_ram_gib,
            "at_least",
            "GiB",
            "end what else runs; a load from disk also wants memory for its cache",
        ),
    ]


def limits(shm: Room | None, limits_text: str | None, meminfo: str | None, bounds: Bounds) -> list[Check]:
    """Shared memory and what one process may open and lock. Huge pages are only reported."""
    table = read_limits(limits_text or "")
    pages = {key: value for key, value in meminfo_kib(meminfo or "").items() if "uge" in key}
    locked = table.get("Max locked memory")
    return [
        Check(
            "free /dev/shm",
            shm.free_gib if shm else None,
            bounds.min_shm_gib,
            "at_least",
            "GiB",
            "mount it larger (docker run --shm-size, or mount -o remount,size=32G /dev/shm); remove dead segments",
            detail={"huge_pages": pages},
        ),
        Check(
            "open files a process may have",
            table.get("Max open files"),
            bounds.min_open_files,
            "at_least",
            "files",
            "ulimit -n 65536, LimitNOFILE= in the service, --ulimit nofile= for a container",
        ),
        Check(
            "memory a process may lock",
            None if locked is None else locked / 2**30,
            bounds.min_locked_gib,
            "at_least",
            "GiB",
            "ulimit -l unlimited, LimitMEMLOCK=infinity in the service, --ulimit memlock=-1 for a container",
        ),
    ]


def read_limits(text: str) -> dict[str, float]:
    """Soft limits of ``/proc/self/limits``: name, soft, hard, unit, in columns at least two blanks apart."""
    table = {}
    for line in text.splitlines()[1:]:
        columns = re.split(r"\s{2,}", line.strip())
        if len(columns) >= 2:
            soft = columns[1]
            table[columns[0]] = _UNLIMITED_GIB if soft == "unlimited" else float(soft)
    return table


def models_whole(models: Mapping[str, ModelFiles | str]) -> Check:
    """Every model that a candidate names: config, index, each shard's size against its own header.

    A text instead of files says why the model could not be found.
    """
    problems: list[str] = []
    detail: dict[str, Any] = {}
    for name, files in models.items():
        if isinstance(files, str):
            problems.append(f"{name}: {files}")
            continue
        detail[name] = {"size_gib": files.size_gib, "files": files.files}
        problems += [f"{name}: {problem}" for problem in files.problems]
    remedy = "download the files that are named again; a recipe's model is made by ci/quickstart"
    return count("model files that are not whole", problems, remedy, n=len(models), detail=detail)


def numa(cards: Sequence[Card], source: NodeSource, bounds: Bounds) -> Check:
    """The GPUs lie on as many NUMA nodes as declared, evenly, and this process may use the cores of all of them."""
    nodes: dict[str, list[int]] = {}
    problems = []
    for card in cards:
        node = (source.text(f"/sys/bus/pci/devices/{card.bus_id}/numa_node") or "unknown").strip()
        nodes.setdefault(node, []).append(card.index)
    if "unknown" in nodes or "-1" in nodes:
        lost = nodes.get("unknown", []) + nodes.get("-1", [])
        problems.append(f"the kernel does not know the NUMA node of GPUs {lost}")
    elif bounds.numa_nodes is not None and len(nodes) != bounds.numa_nodes:
        problems.append(f"GPUs on {len(nodes)} NUMA nodes, not {bounds.numa_nodes}: {nodes}")
    elif len({len(indices) for indices in nodes.values()}) > 1:
        problems.append(f"GPUs are not spread evenly over the NUMA nodes: {nodes}")
    status = source.text("/proc/self/status") or ""
    allowed = _cpu_list(
        next((line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list")), "")
    )
    for node in sorted(set(nodes) - {"unknown", "-1"}):
        cores = _cpu_list((source.text(f"/sys/devices/system/node/node{node}/cpulist") or "").strip())
        if not cores:
            problems.append(f"NUMA node {node} has no cores")
        elif cores - allowed:
            problems.append(
                f"this process may not use {len(cores - allowed)} of {len(cores)} cores of NUMA node {node}"
            )
    remedy = "NPS and SNC settings in the BIOS; start without taskset or a cpuset that leaves out a node"
    detail = {"gpus_of_node": nodes}
    return count("NUMA nodes that are not as declared", problems, remedy, n=len(cards), detail=detail)


def _cpu_list(text: str) -> set[int]:
    """The kernel's list format: ``0-31,64-95``."""
    cores: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cores.update(range(int(first), int(last or first) + 1))
    return cores


def distinct_models(candidates: Iterable[Any]) -> list[str]:
    """Every model and draft that the candidates name, each once."""
    names = []
    for candidate in candidates:
        draft = candidate.arguments.get("speculative-draft-model-path")
        names += [candidate.model, *([draft] if isinstance(draft, str) else [])]
    return list(dict.fromkeys(names))
