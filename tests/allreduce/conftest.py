"""One world of two ranks and one of four for all negative controls: starting one costs most of a minute."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sglgate.allreduce import paths
from sglgate.allreduce.paths import Claim, Host
from sglgate.allreduce.sizes import KIB, Geometry
from sglgate.allreduce.world import World, WorldSpec

SHM_LIMIT_BYTES = 256 * KIB
GEOMETRY = Geometry(hidden=256, decode_rows=(1, 2, 8), verify_rows=(4,), prefill_rows=(128,))


@pytest.fixture(scope="session")
def stack_python() -> Path:
    """The CPU stack's interpreter: ``SGLGATE_STACK``, or the one that ci/quickstart makes."""
    default = Path(__file__).parents[2] / ".stacks" / "cpu" / "bin" / "python"
    python = Path(os.environ.get("SGLGATE_STACK", default))
    if not python.exists():
        pytest.skip(f"no stack at {python}; set SGLGATE_STACK to the interpreter of one")
    return python


def shm_host(world_size: int) -> Host:
    return Host(release=(0, 5, 23), world_size=world_size, path_limit_bytes=SHM_LIMIT_BYTES)


def shm_claim(world_size: int) -> Claim:
    claim = paths.claim("shm", shm_host(world_size))
    assert isinstance(claim, Claim)
    return claim


def spec(python: Path, world_size: int, log_dir: Path, **changes: object) -> WorldSpec:
    fields = {
        "python": python,
        "world_size": world_size,
        "device": "cpu",
        "log_dir": log_dir,
        "env": {"SGLANG_USE_CPU_ENGINE": "1", "HF_HUB_OFFLINE": "1"},
        "shm_limit_bytes": SHM_LIMIT_BYTES,
        **changes,
    }
    return WorldSpec(**fields)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def world_of_2(stack_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(spec(stack_python, 2, tmp_path_factory.mktemp("world2"))) as world:
        yield world


@pytest.fixture(scope="session")
def world_of_4(stack_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(spec(stack_python, 4, tmp_path_factory.mktemp("world4"))) as world:
        yield world
