"""Is a model on disk whole? Its index against its shards, each shard's header against its size; no weight is read."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Final

from sglgate.node.facts import ModelFiles

_INDEX: Final = "model.safetensors.index.json"
_LARGEST_HEADER: Final = 100 << 20


def inspect_model(folder: Path) -> ModelFiles:
    """Sizes and headers of a model's folder; a hub's snapshot, which is made of links, counts by what they lead to."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        problems = [] if isinstance(config, dict) else ["config.json is no table"]
    except OSError as error:
        problems = [f"config.json: {error.strerror}"]
    except ValueError as error:
        problems = [f"config.json is no JSON: {error}"]
    shards = {path.name: path for path in folder.glob("*.safetensors")}
    listed = _listed(folder / _INDEX, problems)
    problems += [f"{name} is missing" for name in sorted(listed - set(shards))]
    if not shards:
        problems.append("no *.safetensors")
    size_bytes = 0
    for name in sorted(listed & set(shards) or shards):
        found = _problem(shards[name])
        if found is not None:
            problems.append(f"{name}: {found}")
        else:
            size_bytes += shards[name].stat().st_size
    return ModelFiles(size_gib=round(size_bytes / 2**30, 2), files=len(shards), problems=tuple(problems))


def _listed(index: Path, problems: list[str]) -> set[str]:
    if not index.exists():
        return set()
    try:
        return set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        problems.append(f"{index.name} cannot be read: {error!r}")
        return set()


def _problem(path: Path) -> str | None:
    """What is wrong with a shard. Format: eight bytes with the header's length, the header in JSON, then the data."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > _LARGEST_HEADER:
                return "its header is nonsense"
            header = json.loads(file.read(length))
        ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
    except (OSError, ValueError, struct.error, KeyError, TypeError, AttributeError, IndexError) as error:
        return f"cannot be read: {error}"
    wanted = 8 + length + max(ends, default=0)
    return None if size == wanted else f"{size} bytes, its header needs {wanted}"
