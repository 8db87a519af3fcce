"""Time against size, both axes logarithmic, both paths, limits marked: one SVG without scripts or fonts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from sglgate.allreduce.sizes import show_bytes
from sglgate.allreduce.speed import Row

_WIDTH, _HEIGHT = 760, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 24, 56, 56
_COLOURS = ("#0b6e99", "#c2571a", "#3c7a3c", "#7a3c7a")


@dataclass(frozen=True)
class Series:
    """One line: ``(size_bytes, microseconds)`` points in ascending order of size."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class _Axis:
    """A logarithmic axis from ``low`` to ``high`` laid on pixels ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return self.start + share * (self.end - self.start)


def series_of(rows: Sequence[Row], candidate: str, baseline: str) -> list[Series]:
    """Both paths of a speed table, a line for each regime and dtype."""
    regimes = list(dict.fromkeys(row.bucket.split(" ", 2)[2] for row in rows))
    found = []
    for regime in regimes:
        chosen = sorted((row for row in rows if row.bucket.split(" ", 2)[2] == regime), key=lambda row: row.size_bytes)
        for name, points in (
            (candidate, tuple((row.size_bytes, row.candidate_us) for row in chosen)),
            (baseline, tuple((row.size_bytes, row.baseline_us) for row in chosen)),
        ):
            found.append(Series(f"{name}, {regime}", points))
    return found


def time_against_size(series: Sequence[Series], limits_bytes: Mapping[str, float], title: str) -> str:
    """The plot as SVG text.

    Args:
        series: the lines; at least one point in all.
        limits_bytes: a label and a size for every vertical mark, a path's limit say.
    """
    points = [point for one in series for point in one.points]
    if not points:
        raise ValueError("nothing to plot")
    sizes = [size for size, _ in points] + list(limits_bytes.values())
    x = _axis(sizes, 2.0, _LEFT, _WIDTH - _RIGHT)
    y = _axis([time for _, time in points], 10.0, _HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="22" font-size="15">{escape(title)}</text>',
        *_grid(x, y),
        *_marks(x, limits_bytes),
    ]
    for number, one in enumerate(series):
        parts += _line(x, y, one, number)
    return "\n".join([*parts, "</svg>"])


def _axis(values: Sequence[float], base: float, start: float, end: float) -> _Axis:
    low = base ** math.floor(math.log(min(values), base) + 1e-9)
    high = base ** math.ceil(math.log(max(values), base) - 1e-9)
    return _Axis(low, high if high > low else low * base, start, end)


def _grid(x: _Axis, y: _Axis) -> list[str]:
    parts = []
    doublings = round(math.log2(x.high / x.low))
    for power in range(0, doublings + 1, max(1, doublings // 8)):
        at = x.at(x.low * 2**power)
        parts.append(f'<line x1="{at:.1f}" y1="{y.end}" x2="{at:.1f}" y2="{y.start}" stroke="#ddd"/>')
        label = show_bytes(x.low * 2**power)
        parts.append(f'<text x="{at:.1f}" y="{y.start + 18}" text-anchor="middle">{label}</text>')
    for power in range(round(math.log10(y.high / y.low)) + 1):
        value = y.low * 10**power
        at = y.at(value)
        parts.append(f'<line x1="{x.start}" y1="{at:.1f}" x2="{x.end}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{x.start - 6}" y="{at + 4:.1f}" text-anchor="end">{value:g} us</text>')
    parts.append(f'<text x="{(x.start + x.end) / 2}" y="{_HEIGHT - 14}" text-anchor="middle">size</text>')
    return parts


def _marks(x: _Axis, limits_bytes: Mapping[str, float]) -> list[str]:
    parts = []
    for label, size in limits_bytes.items():
        at = x.at(size)
        parts.append(
            f'<line x1="{at:.1f}" y1="{_TOP}" x2="{at:.1f}" y2="{_HEIGHT - _BOTTOM}" '
            f'stroke="#900" stroke-dasharray="4 3"/>'
        )
        text = escape(f"{label} {show_bytes(size)}")
        parts.append(f'<text x="{at - 4:.1f}" y="{_TOP + 12}" text-anchor="end" fill="#900">{text}</text>')
    return parts


def _line(x: _Axis, y: _Axis, one: Series, number: int) -> list[str]:
    colour = _COLOURS[number % len(_COLOURS)]
    dashes = ' stroke-dasharray="6 4"' if number >= len(_COLOURS) else ""
    places = [(x.at(size), y.at(time)) for size, time in one.points]
    path = " ".join(f"{left:.1f},{top:.1f}" for left, top in places)
    dots = [f'<circle cx="{left:.1f}" cy="{top:.1f}" r="3" fill="{colour}"/>' for left, top in places]
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dashes}/>',
        *dots,
        f'<text x="{_LEFT + number % 2 * 330}" y="{38 + number // 2 * 14}" fill="{colour}">{escape(one.name)}</text>',
    ]
