"""Lines and points on two axes, linear or logarithmic."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sglgate.naming import visible
from sglgate.report.pictures.svg import element, picture, text

_WIDTH, _PLOT_HEIGHT = 460, 230
_LEFT, _RIGHT, _ABOVE, _BELOW = 62, 16, 10, 44
_LEGEND_ROW = 18
_STYLES = 4
_PADDING = 0.06


@dataclass(frozen=True)
class Point:
    """One measured place; ``low`` and ``high`` are its interval in ``y``, where it has one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """One line, in ascending order of ``x``. A bound is drawn as a short level at each of its points."""

    name: str
    points: tuple[Point, ...]
    is_bound: bool = False


@dataclass(frozen=True)
class Scale:
    """How an axis reads. ``ticks`` empty: chosen here; a logarithmic axis needs values above zero."""

    label: str
    is_log: bool = False
    ticks: tuple[float, ...] = ()
    show: Callable[[float], str] = field(default=lambda value: f"{value:.6g}")


@dataclass(frozen=True)
class _Axis:
    scale: Scale
    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]

    def at(self, value: float) -> float:
        low, high, value = (_log(v) if self.scale.is_log else v for v in (self.low, self.high, value))
        share = (value - low) / (high - low)
        return self.start + max(0.0, min(1.0, share)) * (self.end - self.start)


def chart(label: str, x: Scale, y: Scale, series: Sequence[Series], limits: Mapping[str, float] | None = None) -> str:
    """The chart; empty where no point can be drawn.

    Args:
        label: what it shows, for those who do not see it.
        x, y: the axes.
        series: the lines; a value that is not finite, or not above zero on a logarithmic axis, is left out.
        limits: a name and a value of ``x`` for every vertical mark.
    """
    series = [one for one in (_drawable(one, x, y) for one in series) if one.points]
    marks = {name: value for name, value in (limits or {}).items() if _fits(value, x)}
    points = [point for one in series for point in one.points]
    if not points:
        return ""
    top = _ABOVE + _LEGEND_ROW * math.ceil(len(series) / 2)
    height = top + _PLOT_HEIGHT + _BELOW
    across = _axis(x, [point.x for point in points] + list(marks.values()), _LEFT, _WIDTH - _RIGHT)
    reach = [end for p in points for end in (p.y, p.low, p.high) if end is not None and _fits(end, y)]
    up = _axis(y, reach, height - _BELOW, top)
    if across is None or up is None:
        return ""
    parts = [*_grid(across, up), *_limits(across, up, marks)]
    for number, one in enumerate(series):
        parts += _line(across, up, one, number)
        parts += _legend(one, number)
    return picture(label, *parts, class_="chart", viewBox=f"0 0 {_WIDTH} {height}")


def doublings(low: float, high: float, most: int = 6) -> tuple[float, ...]:
    """Powers of two that span ``low`` to ``high``, at most ``most`` + 1 of them."""
    first, last = math.floor(math.log2(low) + 1e-9), math.ceil(math.log2(high) - 1e-9)
    step = max(1, math.ceil((last - first) / most))
    return tuple(2.0**power for power in range(first, last + step, step))


def _log(value: float) -> float:
    return math.log(value)


def _fits(value: float, scale: Scale) -> bool:
    return math.isfinite(value) and (value > 0 or not scale.is_log)


def _drawable(one: Series, x: Scale, y: Scale) -> Series:
    return Series(one.name, tuple(p for p in one.points if _fits(p.x, x) and _fits(p.y, y)), one.is_bound)


def _axis(scale: Scale, values: Sequence[float], start: float, end: float) -> _Axis | None:
    low, high = min((*values, *scale.ticks)), max((*values, *scale.ticks))
    if scale.is_log:
        room = (high / low) ** _PADDING if high > low else 2.0
        low, high = low / room, high * room
    else:
        room = _PADDING * (high - low) or abs(high) / 2 or 1.0
        low, high = low - room, high + room
    if not math.isfinite(high - low) or low >= high or (scale.is_log and low <= 0):
        return None
    ticks = scale.ticks or (_log_ticks(low, high) if scale.is_log else _round_ticks(low, high))
    return _Axis(scale, low, high, start, end, ticks)


def _log_ticks(low: float, high: float) -> tuple[float, ...]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    mantissas = (1,) if last - first > 3 else (1, 2, 5)
    return tuple(v for power in range(first, last + 1) for m in mantissas if low <= (v := m * 10.0**power) <= high)


def _round_ticks(low: float, high: float) -> tuple[float, ...]:
    rough = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * m for m in (1, 2, 2.5, 5, 10) if unit * m >= rough)
    first = math.ceil(low / step)
    return tuple(round(number * step, 12) for number in range(first, math.floor(high / step) + 1))


def _grid(x: _Axis, y: _Axis) -> list[str]:
    parts = []
    for tick in x.ticks:
        at = x.at(tick)
        parts.append(element("line", class_="grid", x1=at, x2=at, y1=y.start, y2=y.end))
        parts.append(element("text", text(x.scale.show(tick)), x=at, y=y.start + 17, text_anchor="middle"))
    for tick in y.ticks:
        at = y.at(tick)
        parts.append(element("line", class_="grid", x1=x.start, x2=x.end, y1=at, y2=at))
        parts.append(element("text", text(y.scale.show(tick)), x=x.start - 7, y=at + 4, text_anchor="end"))
    middle = (y.start + y.end) / 2
    turned = f"rotate(-90 13 {middle:.1f})"
    parts.append(element("text", text(x.scale.label), x=(x.start + x.end) / 2, y=y.start + 37, text_anchor="middle"))
    parts.append(element("text", text(y.scale.label), x=13, y=middle, text_anchor="middle", transform=turned))
    return parts


def _limits(x: _Axis, y: _Axis, marks: Mapping[str, float]) -> list[str]:
    parts = []
    for row, (name, value) in enumerate(marks.items()):
        at = x.at(value)
        is_right = at > (x.start + x.end) / 2
        words = text(f"{name} {x.scale.show(value)}")
        anchor, aside = ("end", -5) if is_right else ("start", 5)
        parts.append(element("line", class_="limit", x1=at, x2=at, y1=y.start, y2=y.end))
        parts.append(
            element("text", words, class_="limit-name", x=at + aside, y=y.end + 13 + 14 * row, text_anchor=anchor)
        )
    return parts


def _line(x: _Axis, y: _Axis, one: Series, number: int) -> list[str]:
    style = f"s{number % _STYLES + 1}"
    places = [(x.at(p.x), y.at(p.y)) for p in one.points]
    if one.is_bound:
        return [element("line", class_="bound", x1=a - 16, x2=a + 16, y1=b, y2=b) for a, b in places]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
    parts = [element("polyline", class_=f"line {style}", points=path)] if len(places) > 1 else []
    for point, (a, b) in zip(one.points, places, strict=True):
        if point.low is not None and point.high is not None:
            low, high = (y.at(end) if _fits(end, y.scale) else b for end in (point.low, point.high))
            caps = "".join(f"M{a - 4:.1f} {end:.1f}h8" for end in (low, high))
            parts.append(element("path", class_=f"line {style}", d=f"M{a:.1f} {low:.1f}V{high:.1f}{caps}"))
        parts.append(_marker(a, b, number))
    return parts


def _marker(x: float, y: float, number: int) -> str:
    """Its shape tells the series as its colour does."""
    shape = (
        "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
        "m-4-4h8v8h-8z",
        "m0-5l5 9h-10z",
        "m0-5l5 5l-5 5l-5-5z",
    )[number % _STYLES]
    return element("path", class_=f"marker s{number % _STYLES + 1}", d=f"M{x:.1f} {y:.1f}{shape}")


def _legend(one: Series, number: int) -> list[str]:
    x = _LEFT + number % 2 * (_WIDTH - _LEFT) / 2
    y = _ABOVE + number // 2 * _LEGEND_ROW
    sample = element("line", class_="bound", x1=x, x2=x + 16, y1=y, y2=y) if one.is_bound else _marker(x + 8, y, number)
    return [sample, element("text", text(visible(one.name, 30)), class_="name", x=x + 22, y=y + 4)]
