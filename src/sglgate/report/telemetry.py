"""``telemetry.jsonl`` of a run: what the machine did meanwhile, one JSON object a line.

``{"t": unix seconds, "gpus": [{...}, ...], "cpu": {...}}``; which of their keys are drawn, and as what, is in
``_QUANTITIES``. A key may be absent or null, others do not matter. A quantity of the GPUs is read as its least and most
over the cards.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sglgate.evidence import number
from sglgate.report.pictures.strip import Reading, events, lane

TELEMETRY: Final = "telemetry.jsonl"
#: NVML's reasons that hold a clock down for heat or the hardware's safety (nvml.h, nvmlClocksEventReasons):
#: hardware slowdown, software and hardware thermal slowdown, power brake.
_SLOWED: Final = 0x08 | 0x20 | 0x40 | 0x80


@dataclass(frozen=True)
class _Quantity:
    """A key of ``gpus`` or ``cpu``: its name, its unit ("" for an event, which happens where it is not zero)."""

    where: str
    key: str
    name: str
    unit: str = ""
    mask: int | None = None


#: In the order in which the lanes stand.
_QUANTITIES: Final = (
    _Quantity("gpus", "foreign", "foreign processes on a GPU"),
    _Quantity("gpus", "reasons", "a GPU slowed down", mask=_SLOWED),
    _Quantity("gpus", "sm_mhz", "GPU clock", "MHz"),
    _Quantity("gpus", "temperature_c", "GPU temperature", "°C"),
    _Quantity("gpus", "power_w", "GPU power", "W"),
    _Quantity("gpus", "utilization_pct", "GPU in use", "%"),
    _Quantity("gpus", "used_mib", "GPU memory in use", "MiB"),
    _Quantity("gpus", "pcie_width", "PCIe lanes", "lanes"),
    _Quantity("cpu", "foreign", "foreign processes"),
    _Quantity("cpu", "foreign_share", "CPU time of others", "% of all cores"),
    _Quantity("cpu", "busy_share", "CPU time of all", "% of all cores"),
    _Quantity("cpu", "throttled_share", "CPU throttled", "% of periods"),
    _Quantity("cpu", "mhz", "CPU clock", "MHz"),
    _Quantity("cpu", "available_mib", "memory available", "MiB"),
)


@dataclass(frozen=True)
class Lane:
    """One quantity of a stretch of time: its name, its range in words, its picture where there is more to see."""

    name: str
    range: str
    svg: str


@dataclass(frozen=True)
class Telemetry:
    """Readings in order of time; ``lines`` were read, ``unreadable`` could not be."""

    readings: Mapping[_Quantity, Sequence[Reading]]
    lines: int = 0
    unreadable: int = 0

    @property
    def last(self) -> float | None:
        """Time of the last reading."""
        return max((found[-1][0] for found in self.readings.values()), default=None)

    def lanes(self, began: float, ended: float, ready: float | None = None) -> list[Lane]:
        """The lanes of one stretch, with the moment ``ready`` marked; none where nothing was read in it."""
        found = []
        for quantity in _QUANTITIES:
            every = self.readings.get(quantity, ())
            first, last = (bisect_left(every, (moment, -math.inf, -math.inf)) for moment in (began, ended))
            if first < last:
                found.append(_lane(quantity, every[first:last], began, ended, ready))
        return found


def read_telemetry(folder: Path) -> Telemetry:
    """What a run's folder has of it; nothing where there is no such file."""
    readings: dict[_Quantity, list[Reading]] = {}
    count = unreadable = 0
    try:
        with (folder / TELEMETRY).open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                count += 1
                try:
                    found = list(_of_line(json.loads(line)))
                except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                    unreadable += 1  # the last one of a run that was killed, say
                    continue
                for quantity, reading in found:
                    readings.setdefault(quantity, []).append(reading)
    except OSError:
        pass
    return Telemetry({quantity: sorted(found) for quantity, found in readings.items()}, count, unreadable)


def _of_line(data: Mapping[str, Any]) -> Iterator[tuple[_Quantity, Reading]]:
    time = number(data["t"])
    if time is None:
        raise ValueError("no time")
    parts = {"gpus": data.get("gpus") or [], "cpu": [data.get("cpu") or {}]}
    for quantity in _QUANTITIES:
        values = [v for one in parts[quantity.where] if (v := _amount(one.get(quantity.key), quantity)) is not None]
        if values:
            yield quantity, (time, min(values), max(values))


def _amount(value: object, quantity: _Quantity) -> float | None:
    if quantity.unit:
        found = number(value)
        return found * 100 if found is not None and quantity.key.endswith("_share") else found
    if isinstance(value, list | bool):
        return float(len(value) if isinstance(value, list) else value)
    return float(value & quantity.mask) if isinstance(value, int) and quantity.mask is not None else number(value)


def _lane(quantity: _Quantity, readings: Sequence[Reading], began: float, ended: float, ready: float | None) -> Lane:
    low, high = min(r[1] for r in readings), max(r[2] for r in readings)
    if quantity.unit:
        words = f"{low:.4g}{'' if low == high else f' to {high:.4g}'} {quantity.unit}"
        draw, is_still = lane, low == high
    else:
        seen = sum(most > 0 for _, _, most in readings)
        words = f"in {seen} of {len(readings)} readings" if seen else "never"
        draw, is_still = events, not seen
    svg = "" if is_still else draw(f"{quantity.name}: {words}", readings, began, ended, ready)
    return Lane(quantity.name, words, svg)
