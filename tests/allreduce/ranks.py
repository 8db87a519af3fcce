"""What the tests of all-reduce share: the shm path as they ask for it, and how a world of it is started."""

import os
from pathlib import Path

from sglgate.allreduce import paths
from sglgate.allreduce.paths import Claim, Host
from sglgate.allreduce.sizes import KIB, Geometry
from sglgate.allreduce.world import WorldSpec

SHM_LIMIT_BYTES = 256 * KIB
GEOMETRY = Geometry(hidden=256, decode_rows=(1, 2, 8), verify_rows=(4,), prefill_rows=(128,))


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
        "env": {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
            "SGLANG_USE_CPU_ENGINE": "1",
            paths.SHM_LIMIT_VARIABLE: str(SHM_LIMIT_BYTES),
        },
        **changes,
    }
    return WorldSpec(**fields)  # type: ignore[arg-type]
