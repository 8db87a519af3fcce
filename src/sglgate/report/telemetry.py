"""``telemetry.jsonl`` of a run: what the machine did meanwhile, one JSON object a line.

``{"at": UTC, "t_s": monotonic seconds, "gpus": [{...}, ...], "host": {...}}``; which of their keys are drawn, and as
what, is in ``_QUANTITIES``. A key may be absent or null, others do not matter. A quantity of the GPUs is read as its
least and most over the cards. The host's CPU time counts up; its shares are those since the line before.
"""

from __future__ import annotations

import datetime
import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic_core import from_json

from sglgate.node.load import BRAKES
from sglgate.report.pictures.strip import Reading, events, lane
from sglgate.telemetry import TELEMETRY

#: A truth value is an int to isinstance, and no reading.
_NUMBERS: Final = (int, float)


@dataclass(frozen=True)
class _Quantity:
    """A key of ``gpus`` or ``host``: its name, its unit ("" for an event, which happens where it is not zero)."""

    where: str
    key: str
    name: str
    unit: str = ""
    mask: int | None = None


#: In the order in which the lanes stand.
_QUANTITIES: Final = (
    _Quantity("gpus", "foreign", "foreign processes on a GPU"),
    _Quantity("gpus", "reasons", "a GPU slowed down", mask=sum(BRAKES)),
    _Quantity("gpus", "sm_mhz", "GPU clock", "MHz"),
    _Quantity("gpus", "temperature_c", "GPU temperature", "°C"),
    _Quantity("gpus", "power_w", "GPU power", "W"),
    _Quantity("gpus", "utilization_pct", "GPU in use", "%"),
    _Quantity("gpus", "used_mib", "GPU memory in use", "MiB"),
    _Quantity("gpus", "pcie_width", "PCIe lanes", "lanes"),
    _Quantity("host", "foreign_pct", "CPU time of others", "% of all cores"),
    _Quantity("host", "busy_pct", "CPU time of all", "% of all cores"),
    _Quantity("host", "throttled_pct", "CPU throttled", "% of periods"),
    _Quantity("host", "mhz", "CPU clock", "MHz"),
    _Quantity("host", "available_mib", "memory available", "MiB"),
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
    before: dict[str, Any] = {}
    try:
        with (folder / TELEMETRY).open("rb") as lines:
            for line in lines:
                count += 1
                try:
                    data = from_json(line)
                    found = list(_of_line(data, before))
                except (ValueError, TypeError, KeyError, AttributeError):
                    unreadable += 1  # the last one of a run that was killed, say, or a look that failed
                    continue
                before = data
                for quantity, reading in found:
                    readings.setdefault(quantity, []).append(reading)
    except OSError:
        pass
    return Telemetry({quantity: sorted(found) for quantity, found in readings.items()}, count, unreadable)


def _of_line(data: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[tuple[_Quantity, Reading]]:
    time = datetime.datetime.fromisoformat(data["at"]).timestamp()
    parts = {"gpus": data.get("gpus") or [], "host": [{**(data.get("host") or {}), **_shares(data, before)}]}
    # A node of eight cards writes sixteen of them a second: one pass over each quantity, no call for each value.
    for quantity in _QUANTITIES:
        key = quantity.key
        values: list[Any] = [value for one in parts[quantity.where] if type(value := one.get(key)) in _NUMBERS]
        if quantity.mask is not None:
            values = [int(value) & quantity.mask for value in values]
        if values and math.isfinite(sum(values)):
            yield quantity, (time, float(min(values)), float(max(values)))


def _shares(data: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, float]:
    """Per cent of the host since the line before; what either line does not tell is left out."""
    new, old = data.get("host") or {}, before.get("host") or {}
    cores_s = (data["t_s"] - before.get("t_s", data["t_s"])) * new.get("cores", 0)
    found = {}
    if cores_s > 0 and "busy_s" in new and "busy_s" in old:
        busy_s = new["busy_s"] - old["busy_s"]
        found["busy_pct"] = 100 * busy_s / cores_s
        if "own_s" in new and "own_s" in old:
            found["foreign_pct"] = 100 * max(0.0, busy_s - (new["own_s"] - old["own_s"])) / cores_s
    periods = new.get("quota_periods", 0) - old.get("quota_periods", 0)
    if periods > 0:
        found["throttled_pct"] = 100 * (new.get("throttled_periods", 0) - old.get("throttled_periods", 0)) / periods
    return found


def _lane(quantity: _Quantity, readings: Sequence[Reading], began: float, ended: float, ready: float | None) -> Lane:
    low, high = min(r[1] for r in readings), max(r[2] for r in readings)
    if quantity.unit:
        words = f"{_short(low)}{'' if low == high else f' to {_short(high)}'} {quantity.unit}"
        draw, is_still = lane, low == high
    else:
        seen = sum(most > 0 for _, _, most in readings)
        words = f"in {seen} of {len(readings)} readings" if seen else "never"
        draw, is_still = events, not seen
    svg = "" if is_still else draw(f"{quantity.name}: {words}", readings, began, ended, ready)
    return Lane(quantity.name, words, svg)


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0") if abs(value) < 1000 else f"{value:.0f}"
