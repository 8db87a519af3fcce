"""Logs in reversed order, as some clouds export them: newest line first."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

MAX_REVERSED_BYTES: Final = 64 << 20
_SAMPLE_BYTES: Final = 1 << 18
_TIME: Final = re.compile(rb"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?")
_MINIMUM_STEPS: Final = 4


def is_reversed(head: bytes) -> bool:
    """Whether the first time of each line falls far more often than it rises, from line to line."""
    found = [_TIME.search(line[:400]) for line in head[:_SAMPLE_BYTES].split(b"\n")]
    times = [match[0].replace(b"T", b" ") for match in found if match]
    steps = [(before, after) for before, after in pairwise(times) if before != after]
    falling = sum(before > after for before, after in steps)
    return len(steps) >= _MINIMUM_STEPS and falling >= 0.9 * len(steps)


def turn(data: bytes) -> tuple[bytes, int]:
    """The log in order, and its number of lines (line n stood at number lines + 1 - n)."""
    lines = data.rstrip(b"\n").split(b"\n")
    return b"\n".join(reversed(lines)) + b"\n", len(lines)
