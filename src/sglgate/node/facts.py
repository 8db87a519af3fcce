"""What a node answers, as data: frozen, with units in the names, the same live and recorded.

``None`` always means that the node does not tell (a driver without that figure, a file without read permission):
whoever judges must not take it for a good answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar


class _Facts:
    # Read from JSON by pydantic, which is only asked when there is some: sixteen models would cost every collection.
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}


@dataclass(frozen=True)
class Process(_Facts):
    """A process that holds a GPU. ``used_mib`` is hidden by some drivers."""

    pid: int
    name: str | None = None
    used_mib: int | None = None


@dataclass(frozen=True)
class GpuSample(_Facts):
    """What moves on a GPU. ``reasons`` is NVML's bit mask of why clocks are held down."""

    index: int
    used_mib: int
    utilization_pct: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    sm_mhz: int | None = None
    memory_mhz: int | None = None
    reasons: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_replays: int | None = None
    processes: tuple[Process, ...] = ()


@dataclass(frozen=True)
class Remap(_Facts):
    """Rows that the memory has replaced by spare ones; ``pending`` needs a reset, ``failed`` a new card."""

    correctable: int
    uncorrectable: int
    pending: bool
    failed: bool


@dataclass(frozen=True)
class Card(_Facts):
    """One GPU: what it is, how it is set, and its state when it was read (``now``)."""

    index: int
    name: str
    uuid: str
    bus_id: str
    compute_capability: str
    total_mib: int
    now: GpuSample
    vbios: str | None = None
    persistence: bool | None = None
    mig: bool | None = None
    ecc: bool | None = None
    ecc_uncorrected: int | None = None
    remap: Remap | None = None
    pcie_generation_max: int | None = None
    pcie_width_max: int | None = None
    power_limit_w: float | None = None
    power_limit_default_w: float | None = None
    slowdown_c: int | None = None
    sm_mhz_max: int | None = None


@dataclass(frozen=True)
class Nvml(_Facts):
    """All that NVML says. ``cuda`` is the newest CUDA that the driver serves; cards by index, as text."""

    driver: str
    cuda: str
    cards: dict[str, Card]

    @property
    def gpus(self) -> list[Card]:
        """The cards in NVML's order, which is by PCI address."""
        return sorted(self.cards.values(), key=lambda card: card.index)


@dataclass(frozen=True)
class HostSample(_Facts):
    """What moves on the host; seconds are since boot and of all cores together.

    ``own_s`` is CPU time of this process and all its descendants, ended ones included.
    """

    cores: int
    busy_s: float
    own_s: float | None = None
    load_1min: float | None = None
    available_mib: int | None = None
    mhz: float | None = None
    quota_periods: int = 0
    throttled_periods: int = 0


@dataclass(frozen=True)
class Sample(_Facts):
    """One look at everything that moves; ``t_s`` is monotonic, ``at`` UTC for people."""

    at: str
    t_s: float
    host: HostSample
    gpus: tuple[GpuSample, ...] = ()


@dataclass(frozen=True)
class Room(_Facts):
    """Space of the file system that holds a path."""

    total_gib: float
    free_gib: float


@dataclass(frozen=True)
class ToolOutput(_Facts):
    """What a command printed, or why it could not be asked."""

    output: str
    error: str | None = None


@dataclass(frozen=True)
class ModelFiles(_Facts):
    """A model on disk: its size, and every way in which its files are not whole."""

    size_gib: float
    files: int
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class UnderLoad(_Facts):
    """A GPU while it was busy: extremes over ``samples`` looks, and the median of its clock."""

    samples: int
    sm_mhz: float | None = None
    power_w_max: float | None = None
    temperature_c_max: int | None = None
    reasons: int | None = None
    pcie_generation_min: int | None = None
    pcie_width_min: int | None = None
    pcie_replays: int | None = None


@dataclass(frozen=True)
class ProbeAnswer(_Facts):
    """What a script in the stack's interpreter found, and what the GPUs did meanwhile, by index as text.

    ``error`` says why there is no ``result``: the script's last words, or the deadline that it missed.
    """

    result: dict[str, Any] | None = None
    error: str | None = None
    under_load: dict[str, UnderLoad] = field(default_factory=dict)
