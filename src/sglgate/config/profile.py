"""What a machine must be, and what every server on it has in common."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from sglgate.config.toml_files import read_toml, validate
from sglgate.errors import MisuseError

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,79}$")]
ArgumentValue = bool | int | float | str | list[int] | list[float] | list[str]


class _Strict(BaseModel):
    # strict: TOML has types, so "8" for 8 is a mistake to report and not to repair.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Machine(_Strict):
    """The hardware that must be there before anything is judged."""

    gpus: int = Field(default=0, ge=0, description="how many GPUs the lane needs; 0 for none")
    compute_capability: str | None = Field(default=None, pattern=r"^\d+\.\d+$", description='such as "12.0"')
    gpu_memory_mib: int | None = Field(default=None, gt=0, description="total memory of each GPU, MiB")
    gpu_name: str | None = Field(default=None, description="text that each GPU's name must contain")
    min_ram_gib: float = Field(default=0, ge=0, description="host memory, GiB")


class Bounds(_Strict):
    """What preflight demands of the machine; what has no bound here is only reported."""

    min_driver: str | None = Field(default=None, pattern=r"^\d+(\.\d+)*$", description="oldest driver that may be")
    max_driver: str | None = Field(default=None, pattern=r"^\d+(\.\d+)*$", description="newest driver that may be")
    persistence: bool | None = Field(default=None, description="persistence mode of every GPU")
    ecc: bool | None = Field(default=None, description="ECC mode of every GPU")
    min_power_limit_w: float | None = Field(default=None, gt=0, description="enforced power limit of every GPU")
    max_idle_mib: int = Field(default=512, ge=0, description="memory that an idle GPU may hold, MiB")
    max_idle_utilization_pct: int = Field(default=5, ge=0, le=100, description="utilisation that counts as idle")
    max_idle_c: int = Field(default=60, gt=0, description="temperature of an idle GPU, degrees Celsius")
    max_foreign_cpu_share: float = Field(default=0.10, ge=0, le=1, description="CPU time of others, of all cores")
    pcie_generation: int | None = Field(default=None, gt=0, description="of every GPU's link, under load")
    pcie_width: int | None = Field(default=None, gt=0, description="lanes of every GPU's link, under load")
    numa_nodes: int | None = Field(default=None, gt=0, description="how many NUMA nodes the GPUs are spread over")
    peer_access: bool = Field(default=True, description="whether every GPU must reach every other's memory")
    translating_iommu: bool = Field(default=False, description="whether an IOMMU may translate what GPUs send")
    min_peer_gb_per_s: float = Field(default=0, ge=0, description="of every pair, each direction, GB/s")
    max_peer_copy_us: float | None = Field(default=None, gt=0, description="an 8-byte copy between any pair, us")
    min_shm_gib: float = Field(default=0, ge=0, description="free in /dev/shm, GiB")
    min_disk_gib: float = Field(default=0, ge=0, description="free where reports are written, GiB")
    min_available_ram_gib: float = Field(default=0, ge=0, description="memory that a new process can have, GiB")
    min_open_files: int = Field(default=0, ge=0, description="open files a process may have")
    min_locked_gib: float = Field(default=0, ge=0, description="memory a process may lock, GiB")
    kernel_deadline_s: float = Field(default=180, gt=0, description="one kernel on every GPU, torch's import included")
    peer_deadline_s: float = Field(default=300, gt=0, description="all pairs of GPUs, both ways")
    collective_deadline_s: float = Field(default=180, gt=0, description="the all-reduce sweep of one group of ranks")
    node_facts: str | None = Field(default=None, description="facts file that `sglgate bringup` wrote; must still hold")


class Deadlines(_Strict):
    """How long one start phase may take, in seconds, before the launch counts as hung."""

    process_s: float = Field(default=180, gt=0, description="from exec to the first weights line")
    weights_s: float = Field(default=600, gt=0, description="loading weights, draft included")
    kv_s: float = Field(default=180, gt=0, description="from weights to the end of the memory pool")
    graphs_s: float = Field(default=900, gt=0, description="graph capture until the server says it is up")
    first_token_s: float = Field(default=120, gt=0, description="from 'fired up' to an answered /generate")
    stop_s: float = Field(default=30, gt=0, description="from SIGTERM to SIGKILL")
    memory_back_s: float = Field(default=60, gt=0, description="until a stopped server's GPU memory is free")

    @property
    def ready_s(self) -> float:
        """The latest time at which a server can be ready, seconds after its start."""
        return self.process_s + self.weights_s + self.kv_s + self.graphs_s + self.first_token_s


class Profile(_Strict):
    """One lane: the machine, and the arguments and environment that all its servers share."""

    name: Name = Field(description="also the pytest marker")
    reason: str = Field(min_length=1, description="why this profile exists, in prose")
    candidates: Name | None = Field(default=None, description="whose candidates it judges; absent: its own")
    machine: Machine = Machine()
    preflight: Bounds = Bounds()
    deadlines: Deadlines = Deadlines()
    arguments: dict[str, ArgumentValue] = Field(default={}, description="server arguments of every candidate")
    environment: dict[str, str] = Field(default={}, description="environment of every server")
    memory_back_tolerance_mib: int = Field(default=512, ge=0, description="what a driver may keep, MiB a GPU")

    @property
    def needs_gpu(self) -> bool:
        """Whether the lane is about GPUs at all."""
        return self.machine.gpus > 0

    @property
    def candidates_folder(self) -> str:
        """The folder's name below ``fixtures/candidates``."""
        return self.candidates or self.name


def load_profiles(folder: Path) -> Mapping[str, Profile]:
    """Every ``*.toml`` of a folder, by name.

    Raises:
        MisuseError: any of them is wrong, or two bear one name, or a name differs from its file.
    """
    profiles: dict[str, Profile] = {}
    for path in sorted(folder.glob("*.toml")):
        profile = validate(Profile, read_toml(path), path)
        if profile.name != path.stem:
            raise MisuseError("must equal the file's name", file=path, key="name", value=profile.name)
        profiles[profile.name] = profile
    if not profiles:
        raise MisuseError("no profile found", file=folder, expected="at least one *.toml")
    return profiles
