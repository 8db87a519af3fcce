"""A value with its interval against its bound: which side is green, and how far the whole of it lies from there."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from sglgate.evidence import Evidence, Verdict, number
from sglgate.report.pictures.svg import element, picture, text

_WIDTH, _HEIGHT, _MIDDLE = 200, 34, 11
_EDGE = 8
#: Half the room that a bound's label needs.
_LABEL = 26
_RANGE = re.compile(r"\[([^,\]]+), ([^,\]]+)\]")


@dataclass(frozen=True)
class _Ruler:
    """Values from ``low`` to ``high`` on the picture's width; what lies beyond is at its edge."""

    low: float
    high: float

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return _EDGE + max(0.0, min(1.0, share)) * (_WIDTH - 2 * _EDGE)


def interval_picture(e: Evidence) -> str:
    """The picture; empty where the value or its bound is no number."""
    value, bounds = number(e.value), _bounds(e)
    if value is None or not bounds:
        return ""
    ends = [end for end in e.interval or () if number(end) is not None]
    ruler = _ruler([value, *bounds, *ends])
    if ruler is None:
        return ""
    green = {
        "at_least": (bounds[0], ruler.high),
        "at_most": (ruler.low, bounds[0]),
        "equal": (bounds[0], bounds[0]),
        "within": (bounds[0], bounds[-1]),
    }[e.direction]
    left, right = ruler.at(green[0]), ruler.at(green[1])
    parts = [
        element("line", class_="axis", x1=0, x2=_WIDTH, y1=_MIDDLE, y2=_MIDDLE),
        element("rect", class_="ok", x=left, y=2, width=right - left, height=2 * _MIDDLE - 4),
        *_bounds_drawn(ruler, bounds),
    ]
    if e.interval:
        parts += _whisker(ruler, *e.interval)
    return picture(
        in_words(e), *parts, _mark(ruler.at(value), e.verdict), class_="interval", width=_WIDTH, height=_HEIGHT
    )


def in_words(e: Evidence) -> str:
    """What the picture shows, as a sentence."""
    unit = f" {e.unit}" if e.unit else ""
    value = number(e.value)
    shown = "no value" if value is None else f"{value:.6g}{unit}"
    held = f", interval {e.interval[0]:.6g} to {e.interval[1]:.6g}" if e.interval else ""
    bound = number(e.bound)
    must = e.bound if bound is None else f"{bound:.6g}"
    return f"{e.verdict}: {shown}{held}; must be {e.direction.replace('_', ' ')} {must}{unit}"


def _bounds(e: Evidence) -> list[float]:
    if e.direction != "within":
        bound = number(e.bound)
        return [] if bound is None else [bound]
    match = _RANGE.fullmatch(str(e.bound))
    try:
        found = [number(float(end)) for end in match.groups()] if match else []
    except ValueError:
        return []
    return [] if None in found else list(dict.fromkeys(end for end in found if end is not None))


def _ruler(values: list[float]) -> _Ruler | None:
    low, high = min(values), max(values)
    room = 0.2 * (high - low) or abs(high) or 1.0
    # Near the largest floats there is no room beside the values.
    return _Ruler(low - room, high + room) if math.isfinite(high - low + 2 * room) else None


def _bounds_drawn(ruler: _Ruler, bounds: list[float]) -> list[str]:
    parts = []
    for index, bound in enumerate(bounds):
        x = ruler.at(bound)
        # Of two bounds each is named on its own outer side, or both would stand in one place.
        anchor = "middle" if len(bounds) == 1 else ("end", "start")[index]
        room = _LABEL * len(bounds)
        place = max(room, min(_WIDTH - room, x))
        parts.append(element("line", class_="bound", x1=x, x2=x, y1=0, y2=2 * _MIDDLE))
        parts.append(element("text", text(f"{bound:.7g}"), class_="small", x=place, y=_HEIGHT - 2, text_anchor=anchor))
    return parts


def _whisker(ruler: _Ruler, low: float, high: float) -> list[str]:
    parts = [element("line", class_="whisker", x1=ruler.at(low), x2=ruler.at(high), y1=_MIDDLE, y2=_MIDDLE)]
    for end, way in ((low, 1), (high, -1)):
        x = ruler.at(end)
        if number(end) is None:  # an open end is an arrow
            corner = f"M{x + way * 6:.1f} {_MIDDLE - 4}L{x:.1f} {_MIDDLE}L{x + way * 6:.1f} {_MIDDLE + 4}"
            parts.append(element("path", class_="whisker", d=corner))
        else:
            parts.append(element("line", class_="whisker", x1=x, x2=x, y1=_MIDDLE - 4, y2=_MIDDLE + 4))
    return parts


def _mark(x: float, verdict: Verdict) -> str:
    """A dot where green, a cross where not."""
    if verdict is Verdict.PASS:
        return element("circle", class_="value", cx=x, cy=_MIDDLE, r=4.5)
    arms = f"M{x - 5:.1f} {_MIDDLE - 5}l10 10m0 -10l-10 10"
    return element("path", class_="value red", d=arms)
