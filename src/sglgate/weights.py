"""How long a model's weights may take to load: by their bytes, and by what the disk gives."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from sglgate.config.profile import Deadlines

_SUFFIXES: Final = (".safetensors", ".bin", ".gguf", ".pt")
_SAMPLE_BYTES: Final = 64 << 20
_CHUNK_BYTES: Final = 4 << 20
#: Below, the profile's own deadline is ample whatever the disk.
_SMALL_BYTES: Final = 1 << 30
#: Every rank reads all of the files and keeps its part; repacking comes on top.
_MARGIN: Final = 3.0
_BESIDE_READING_S: Final = 60.0


def weight_files(folder: Path) -> list[Path]:
    """The model's weights, largest first; empty where the folder has none, or is none."""
    files = [path for path in folder.glob("*") if path.suffix in _SUFFIXES and path.is_file()]
    return sorted(files, key=lambda path: path.stat().st_size, reverse=True)


def weight_bytes(folder: Path) -> int:
    """Their size in all."""
    return sum(path.stat().st_size for path in weight_files(folder))


def disk_bytes_per_s(folder: Path) -> float | None:
    """How fast a part of the largest file is read past the page cache; None without a file."""
    files = weight_files(folder)
    if not files or files[0].stat().st_size == 0:
        return None
    fd = os.open(files[0], os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = min(_SAMPLE_BYTES, os.fstat(fd).st_size)
        # The middle: a header that was just looked at would come from memory.
        start = (os.fstat(fd).st_size - size) // 2
        os.posix_fadvise(fd, start, size, os.POSIX_FADV_DONTNEED)
        begun, done = time.perf_counter(), 0
        while done < size and (chunk := os.pread(fd, _CHUNK_BYTES, start + done)):
            done += len(chunk)
        return done / max(time.perf_counter() - begun, 1e-6)
    finally:
        os.close(fd)


def load_s(total_bytes: int, bytes_per_s: float) -> float:
    """Seconds that the weights take to read, once."""
    return total_bytes / bytes_per_s


def scaled(deadlines: Deadlines, total_bytes: int, bytes_per_s: float | None) -> Deadlines:
    """The deadlines of a start with weights of that size: the loading phase grows with them, no other reads them."""
    if total_bytes < _SMALL_BYTES or not bytes_per_s:
        return deadlines
    weights_s = _BESIDE_READING_S + _MARGIN * load_s(total_bytes, bytes_per_s)
    return deadlines.model_copy(update={"weights_s": max(deadlines.weights_s, weights_s)})


def deadlines_for(deadlines: Deadlines, *folders: Path) -> Deadlines:
    """As :func:`scaled`, for a model and its draft where they lie."""
    total = sum(weight_bytes(folder) for folder in folders)
    return scaled(deadlines, total, disk_bytes_per_s(folders[0])) if total >= _SMALL_BYTES else deadlines
