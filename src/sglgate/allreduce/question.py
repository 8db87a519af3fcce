"""From a candidate to what its all-reduces are asked: path, host, shapes, sizes to time."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from sglgate.allreduce import paths
from sglgate.allreduce.paths import Claim, Host, Path, Refusal
from sglgate.allreduce.sizes import KIB, MIB, Geometry
from sglgate.allreduce.topology import Topology
from sglgate.config import Candidate
from sglgate.errors import MisuseError

# RTX PRO 6000 Blackwell; a GPU with less only has more "uncached" buffers than it needs.
GPU_L2_BYTES = 128 * MIB
_DEFAULT_PREFILL_ROWS = 8192
_DEFAULT_MAX_BATCH = 32
_MOST_PREFILL_ROWS = {"cpu": 512}
# On a CPU a step takes milliseconds whatever its size; on a GPU the decode sizes are the question.
_TIMED_BYTES = {
    "cpu": (4 * KIB, 32 * KIB, 256 * KIB, 1 * MIB),
    "cuda": (12 * KIB, 96 * KIB, 384 * KIB, 1 * MIB, 4 * MIB, 8 * MIB, 16 * MIB, 64 * MIB),
}


@dataclass(frozen=True)
class Question:
    """What one candidate's all-reduces are judged on, for one number of ranks."""

    path: Path
    host: Host
    claim: Claim | Refusal
    geometry: Geometry
    device: str
    timed_bytes: tuple[int, ...]


def ask(
    candidate: Candidate,
    model_config: Mapping[str, Any],
    release: str,
    *,
    world_size: int,
    gpus: Topology | None = None,
) -> Question:
    """Everything that follows from the candidate, its model's ``config.json`` and the stack's SGLang release.

    Raises:
        MisuseError: no such path, or the path does not say what limits it.
    """
    assert candidate.expect.allreduce is not None
    chosen = paths.path(candidate.expect.allreduce.path)
    device = "cpu" if candidate.arguments.get("device") == "cpu" else "cuda"
    geometry = _geometry(candidate, model_config, device)
    host = Host(
        release=paths.parse_release(release),
        world_size=world_size,
        arch_major=gpus.arch_major if gpus else 0,
        full_nvlink=gpus.full_nvlink if gpus else False,
        path_limit_bytes=_limit(candidate, chosen, geometry),
    )
    claim = paths.claim(chosen.name, host)
    return Question(chosen, host, claim, geometry, device, _TIMED_BYTES[device])


def baseline_of(candidate: Candidate) -> Candidate:
    """The same candidate without what asks for its path, and with custom all-reduce off on a GPU.

    A candidate whose path is the baseline itself is returned as it is: compared with it, a gate shows the machine's
    own noise. NCCL varied by environment has NCCL's defaults as its baseline.
    """
    assert candidate.expect.allreduce is not None
    chosen = paths.path(candidate.expect.allreduce.path)
    varied = set(paths.NCCL_VARIABLES) & set(candidate.environment) if chosen.name == "nccl" else set()
    if chosen.name == "gloo" or (chosen.name == "nccl" and not varied):
        return candidate
    asking = {name.removeprefix("--") for name in paths.FLAGS_OF_PATHS}
    # A faster path is compared with NCCL as the candidate tunes it; only NCCL itself with its own defaults.
    switches = {*chosen.env, *varied, paths.SHM_LIMIT_VARIABLE}
    arguments = {name: value for name, value in candidate.arguments.items() if name not in asking}
    if candidate.arguments.get("device") != "cpu":
        arguments["disable-custom-all-reduce"] = True
    return candidate.model_copy(
        update={
            "name": f"{candidate.name}--baseline",
            "arguments": arguments,
            "environment": {name: value for name, value in candidate.environment.items() if name not in switches},
        }
    )


def _geometry(candidate: Candidate, model_config: Mapping[str, Any], device: str) -> Geometry:
    text = model_config.get("text_config") or model_config
    if not isinstance(text.get("hidden_size"), int):
        raise MisuseError("the model's config states no hidden_size", file=candidate.model, key="hidden_size")
    arguments = candidate.arguments
    # As in pcie_ipc_ar._decode_width (0.5.23): the widest captured decode, times the drafted tokens.
    batch = _number(arguments, "cuda-graph-max-bs", _number(arguments, "max-running-requests", _DEFAULT_MAX_BATCH))
    decode = tuple(sorted({1, 2, 3, *(2**power for power in range(2, 10) if 2**power <= batch), batch}))
    drafted = _number(arguments, "speculative-num-draft-tokens", 4)
    speculates = "speculative-algorithm" in arguments
    prefill = min(
        _number(arguments, "chunked-prefill-size", _DEFAULT_PREFILL_ROWS), _MOST_PREFILL_ROWS.get(device, 2**20)
    )
    return Geometry(
        hidden=text["hidden_size"],
        decode_rows=tuple(rows for rows in decode if rows <= batch),
        verify_rows=tuple(rows * drafted for rows in decode if rows <= batch) if speculates else (),
        prefill_rows=(prefill // 4 + 1, prefill),
    )


def _number(arguments: Mapping[str, Any], name: str, default: int) -> int:
    value = arguments.get(name, default)
    return value if isinstance(value, int) and value > 0 else default


def _limit(candidate: Candidate, path: Path, geometry: Geometry) -> int:
    environment = candidate.environment
    if path.name == "shm":
        return _stated(candidate, paths.SHM_LIMIT_VARIABLE)
    if path.name == "pcie_ipc":
        numel = environment.get("SGLANG_PCIE_IPC_MAX_NUMEL")
        return 2 * (int(numel) if numel else geometry.widest_decode_rows * geometry.hidden)
    if path.name == "custom_v2" and "SGLANG_CUSTOM_ALL_REDUCE_V2_MAX_SIZE_KB" in environment:
        return _stated(candidate, "SGLANG_CUSTOM_ALL_REDUCE_V2_MAX_SIZE_KB") * KIB
    return 0


def _stated(candidate: Candidate, name: str) -> int:
    value = candidate.environment.get(name, "")
    if not value.isdigit() or int(value) == 0:
        raise MisuseError(
            "the path needs its size limit",
            file=candidate.file,
            key=f"environment.{name}",
            value=value or "nothing",
            expected="a positive whole number",
        )
    return int(value)


def cpu_cache_bytes(default: int = 2 * MIB) -> int:
    """The L2 of CPU 0, from sysfs; ``default`` where it does not say.

    Not the last level: that is shared with all cores and, on a virtual machine, with strangers, and to overwrite
    300 MiB before each timing takes a hundred times as long as the timing.
    """
    for index in FilePath("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        with contextlib.suppress(OSError):
            if (index / "level").read_text().strip() == "2":
                return _cache_size((index / "size").read_text().strip())
    return default


def _cache_size(text: str) -> int:
    units = {"K": KIB, "M": MIB}
    return int(text[:-1]) * units[text[-1]] if text[-1:] in units else int(text)
