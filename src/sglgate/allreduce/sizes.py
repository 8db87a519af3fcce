"""Shapes to try, and what a time at a size means."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

DTYPE_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}
KIB, MIB = 2**10, 2**20
LARGEST_BYTES = 64 * MIB

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Geometry:
    """The shapes that a candidate's model really reduces: rows x hidden."""

    hidden: int
    decode_rows: tuple[int, ...]
    verify_rows: tuple[int, ...]
    prefill_rows: tuple[int, ...]

    def shapes(self) -> list[Shape]:
        """``(rows, hidden)`` for decode, verify and prefill, each once, in ascending order."""
        rows = sorted({*self.decode_rows, *self.verify_rows, *self.prefill_rows})
        return [(count, self.hidden) for count in rows]

    @property
    def widest_decode_rows(self) -> int:
        """The widest decode or verify step, which sizes PCIe-IPC's workspace."""
        return max((*self.decode_rows, *self.verify_rows))


def size_bytes(shape: Shape, dtype: str) -> int:
    """Bytes of one rank's tensor."""
    return math.prod(shape) * DTYPE_BYTES[dtype]


def flat(elements: int) -> Shape:
    """A flat size as SGLang would pass it: two-dimensional, as some paths refuse anything else."""
    return (1, elements)


def odd_shapes(dtype: str) -> list[Shape]:
    """Small and odd sizes: 16 bytes, counts that no vector width divides, sizes not multiples of 16 bytes."""
    smallest = 16 // DTYPE_BYTES[dtype]
    counts = [smallest, smallest + 1, 3 * smallest, 127, 1023, 8191, 65537]
    return [flat(count) for count in counts] + [(3, 577), (7, 5, 11)]


def around(limit_bytes: int, dtype: str) -> list[Shape]:
    """Just under, at, and just over a limit: by one 16-byte vector, and by one element."""
    element = DTYPE_BYTES[dtype]
    at = limit_bytes // element
    vector = 16 // element
    return [flat(at + step) for step in (-vector, -1, 0, 1, vector)]


def doubling_shapes(dtype: str, smallest_bytes: int, largest_bytes: int, step: int = 4) -> list[Shape]:
    """Sizes from smallest to largest, each ``step`` times the one before; the largest is always in."""
    found, size = [], smallest_bytes
    while size < largest_bytes:
        found.append(flat(size // DTYPE_BYTES[dtype]))
        size *= step
    return [*found, flat(largest_bytes // DTYPE_BYTES[dtype])]


def algbw_gb_per_s(size: int, seconds: float) -> float:
    """Bytes of one rank's tensor over time, in 1e9 bytes a second (nccl-tests, doc/PERFORMANCE.md)."""
    return size / seconds / 1e9


def busbw_gb_per_s(size: int, seconds: float, world_size: int) -> float:
    """``algbw * 2(n-1)/n``: what each link must carry at least (nccl-tests, doc/PERFORMANCE.md)."""
    return algbw_gb_per_s(size, seconds) * 2 * (world_size - 1) / world_size


def show_bytes(size: float) -> str:
    """``8 MiB``, ``12 KiB``, ``18 B``: exact where it can be, else with one decimal."""
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            value = size / unit
            return f"{value:.0f} {name}" if value == int(value) else f"{value:.1f} {name}"
    return f"{size:.0f} B"


def distinct(shapes: Iterable[Shape]) -> list[Shape]:
    """The shapes without repetitions, in their first order."""
    return list(dict.fromkeys(shapes))
