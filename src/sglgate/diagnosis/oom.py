"""The figures of an out-of-memory message, and who else is on the card according to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_UNIT: Final = {"bytes": 1 / 2**30, "KiB": 1 / 2**20, "MiB": 1 / 2**10, "GiB": 1.0, "MB": 1 / 2**10, "GB": 1.0}
_SIZE: Final = r"(\d{1,9}(?:\.\d{1,9})?) (bytes|KiB|MiB|GiB)"
_TRIED: Final = re.compile(r"Tried to allocate " + _SIZE)
_FREE: Final = re.compile(r"of which " + _SIZE + r" is free")
_OLD_FREE: Final = re.compile(r"; " + _SIZE + r" free;")
_TOTAL: Final = re.compile(r"total capacity of " + _SIZE)
_THIS: Final = re.compile(r"this process has " + _SIZE + r" memory in use")
_PROCESS: Final = re.compile(r"\bProcess (\d+) has " + _SIZE + r" memory in use")
_ALLOCATED: Final = re.compile(_SIZE + r" is allocated by\s+PyTorch")
_RESERVED: Final = re.compile(_SIZE + r" is reserved by\s+PyTorch")
# Below this a process is a bare CUDA context or a display, and no cause of anything.
_WORTH_NAMING_GIB: Final = 1.5
# What a process holds beside torch's pool (CUDA context, NCCL, captured graphs) stays below these.
_OVERHEAD_GIB: Final = 4.0
_OVERHEAD_SHARE: Final = 0.2


@dataclass(frozen=True, slots=True)
class OomFigures:
    """Sizes in GiB as torch prints them, None where it prints none; ``others`` are foreign (pid, GiB).

    ``unaccounted_gib`` is set where nobody is named as its holder and it is too much for this process's own overhead.
    """

    tried_gib: float | None
    free_gib: float | None
    total_gib: float | None
    own_gib: float | None
    others: tuple[tuple[int, float], ...]
    unaccounted_gib: float | None = None

    @property
    def missing_gib(self) -> float | None:
        """How much more would have been needed for this one allocation."""
        if self.tried_gib is None or self.free_gib is None:
            return None
        return max(0.0, self.tried_gib - self.free_gib)


def parse_oom(text: str) -> OomFigures:
    """Read torch's message.

    In a container torch does not know its own pid in the driver's numbering and lists itself as another
    ``Process``; the entry that fits what torch has allocated and reserved is then taken for this process.
    """
    allocated = (_size(_ALLOCATED, text) or 0.0) + (_size(_RESERVED, text) or 0.0)
    own = _size(_THIS, text) or None  # "0 bytes": the driver does not know this process by its pid
    others = [(int(m[1]), float(m[2]) * _UNIT[m[3]]) for m in _PROCESS.finditer(text)]
    if own is None and others and allocated:
        nearest = min(others, key=lambda entry: abs(entry[1] - allocated))
        own = nearest[1]
        others.remove(nearest)
    free = _size(_FREE, text) if _FREE.search(text) else _size(_OLD_FREE, text)
    total, unaccounted = _size(_TOTAL, text), None
    if own is None and not others and allocated and free is not None and total is not None:
        rest = total - free - allocated
        unaccounted = rest if rest > max(_OVERHEAD_GIB, _OVERHEAD_SHARE * total) else None
    return OomFigures(
        _size(_TRIED, text),
        free,
        total,
        own,
        tuple(entry for entry in others if entry[1] >= _WORTH_NAMING_GIB),
        unaccounted,
    )


def _size(pattern: re.Pattern[str], text: str) -> float | None:
    match = pattern.search(text)
    return None if match is None else float(match[1]) * _UNIT[match[2]]
