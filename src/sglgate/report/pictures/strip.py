"""A quantity over a stretch of time, in one low lane: a band from its least to its most, or marks where it happened."""

from __future__ import annotations

from collections.abc import Sequence

from sglgate.report.pictures.svg import element, picture

_WIDTH, _HEIGHT = 1000, 34
#: As many places as a screen has to show; a longer stretch is gathered into them.
_CELLS = 250
Reading = tuple[float, float, float]
"""Time, least, most."""


def lane(label: str, readings: Sequence[Reading], began: float, ended: float, ready: float | None) -> str:
    """The band of a quantity; its own least and most are the lane's edges. ``ready`` is a moment to mark."""
    cells = gather(readings, began, ended)
    low, high = min(c[1] for c in cells), max(c[2] for c in cells)
    span = high - low

    def y(value: float) -> float:
        # A quantity that does not move lies in the middle.
        return _HEIGHT / 2 if span == 0 else _HEIGHT - 3 - (value - low) / span * (_HEIGHT - 6)

    places = [_x(c[0], began, ended) for c in cells]
    upper = [f"{x:.1f},{y(c[2]):.1f}" for x, c in zip(places, cells, strict=True)]
    lower = [f"{x:.1f},{y(c[1]):.1f}" for x, c in zip(places, cells, strict=True)]
    return _picture(
        label,
        *_moment(ready, began, ended),
        element("polygon", class_="band", points=" ".join([*upper, *reversed(lower)])),
        element("polyline", class_="edge", points=" ".join(upper)),
        element("polyline", class_="edge", points=" ".join(lower)),
    )


def events(label: str, readings: Sequence[Reading], began: float, ended: float, ready: float | None) -> str:
    """A mark in every cell of time in which the reading was above zero."""
    step = _WIDTH / _CELLS
    marks = [
        element("rect", class_="event", x=max(0.0, _x(t, began, ended) - step / 2), y=3, width=step, height=_HEIGHT - 6)
        for t, _, most in gather(readings, began, ended)
        if most > 0
    ]
    base = element("line", class_="axis", x1=0, x2=_WIDTH, y1=_HEIGHT - 2, y2=_HEIGHT - 2)
    return _picture(label, *_moment(ready, began, ended), base, *marks)


def gather(readings: Sequence[Reading], began: float, ended: float) -> list[Reading]:
    """At most one reading a cell: the middle of its times, the least and the most that it saw."""
    cells: dict[int, Reading] = {}
    for time, low, high in readings:
        cell = min(_CELLS - 1, int((time - began) / (ended - began) * _CELLS))
        if cell in cells:
            first, least, most = cells[cell]
            time, low, high = (first + time) / 2, min(least, low), max(most, high)
        cells[cell] = (time, low, high)
    return [cells[cell] for cell in sorted(cells)]


def _moment(moment: float | None, began: float, ended: float) -> list[str]:
    if moment is None or not began < moment < ended:
        return []
    at = _x(moment, began, ended)
    return [element("line", class_="moment", x1=at, x2=at, y1=0, y2=_HEIGHT)]


def _x(time: float, began: float, ended: float) -> float:
    return (time - began) / (ended - began) * _WIDTH


def _picture(label: str, *inside: str) -> str:
    box = f"0 0 {_WIDTH} {_HEIGHT}"
    return picture(label, *inside, class_="lane", viewBox=box, preserveAspectRatio="none", width="100%", height=_HEIGHT)
