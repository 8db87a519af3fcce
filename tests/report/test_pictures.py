"""Each picture places what it is given where it belongs, says it in words, and draws nothing where there is nothing."""

from __future__ import annotations

import math
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglgate.report.pictures.bars import Part, bar
from sglgate.report.pictures.chart import Point, Scale, Series, chart, doublings
from sglgate.report.pictures.interval import interval_picture
from sglgate.report.pictures.strip import events, gather, lane
from sglgate.report.pictures.svg import element, picture, text
from tests.report.pages import evidence

HOSTILE = "<script>\"'&\x00\u202e😀" + "x" * 10_000
X, Y = Scale("x"), Scale("y")


def parts(svg: str, name: str, css: str = "") -> list[dict[str, str]]:
    return [
        dict(e.attrib) for e in ElementTree.fromstring(svg).iter(name) if css in e.get("class", "").split() or not css
    ]


def of(value: object, bound: object, direction: str, **fields: Any) -> str:
    return interval_picture(evidence(value=value, bound=bound, direction=direction, **fields))


@pytest.mark.parametrize(
    ("value", "bound", "direction", "is_inside"),
    [
        (1.1, 1.0, "at_least", True),
        (0.9, 1.0, "at_least", False),
        (0.9, 1.0, "at_most", True),
        (1.1, 1.0, "at_most", False),
        (5, "[4, 6]", "within", True),
        (7, "[4, 6]", "within", False),
        (3, 3, "equal", True),
        (4, "[4, 4]", "within", True),
    ],
)
def test_the_mark_lies_in_the_band_exactly_where_the_bound_holds(value, bound, direction, is_inside) -> None:
    svg = of(value, bound, direction, verdict="PASS" if is_inside else "FAIL")
    (band,) = parts(svg, "rect", "ok")
    left, width = float(band["x"]), float(band["width"])

    if is_inside:
        (dot,) = parts(svg, "circle")
        assert left <= float(dot["cx"]) <= left + width
    else:
        (cross,) = parts(svg, "path", "red")
        middle = float(cross["d"][1:].split(" ")[0]) + 5
        assert not left <= middle <= left + width


def test_an_open_end_of_an_interval_is_an_arrow() -> None:
    closed, opened = of(1.2, 1.0, "at_least", interval=(1.1, 1.3)), of(1.2, 1.0, "at_least", interval=(1.1, math.inf))

    assert len(parts(closed, "line", "whisker")) == 3
    assert not parts(closed, "path", "whisker")
    assert len(parts(opened, "path", "whisker")) == 1
    assert "interval 1.1 to inf; must be at least 1" in opened


@pytest.mark.parametrize(
    ("value", "bound", "direction"),
    [
        (None, 1, "at_least"),
        ("a word", "a word", "equal"),
        (True, True, "equal"),
        (1, "[unknown, 3]", "within"),
        (1, "[3", "within"),
        (math.nan, 1, "at_most"),
        (10**400, 1, "at_most"),
        (1.7e308, -1.7e308, "at_least"),
    ],
)
def test_what_is_no_number_is_not_drawn(value, bound, direction) -> None:
    assert of(value, bound, direction) == ""


@given(value=st.floats(), bound=st.floats(), low=st.floats(), high=st.floats())
def test_any_numbers_give_a_picture_within_its_frame_or_none(value, bound, low, high) -> None:
    svg = of(value, bound, "at_least", interval=(low, high))

    for drawn in parts(svg, "circle") if svg else []:
        assert 0 <= float(drawn["cx"]) <= 200


def test_equal_ratios_are_equal_distances_on_a_logarithmic_axis() -> None:
    scale = Scale("bytes", is_log=True)
    points = (Point(1024, 10), Point(4096, 100), Point(16384, 1000))
    (line,) = parts(chart("t", scale, Scale("us", is_log=True), [Series("a", points)]), "polyline")
    (x0, y0), (x1, y1), (x2, y2) = (tuple(map(float, pair.split(","))) for pair in line["points"].split())

    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    assert y2 < y0, "more is higher up"


def test_series_differ_by_more_than_colour_and_bounds_and_limits_are_marked() -> None:
    points = (Point(1, 1, 0.5, 1.5), Point(2, 2))
    svg = chart(
        "t", X, Y, [Series("a", points), Series("b", points), Series("bound", points, is_bound=True)], {"limit": 2}
    )

    markers = parts(svg, "path", "marker")
    assert len({m["d"].partition(" ")[2].lstrip("0123456789.-") for m in markers}) == 2
    assert len(parts(svg, "line", "bound")) == 2 + 1, "two places and the legend"
    assert len(parts(svg, "line", "limit")) == 1
    assert "limit 2" in [e.text for e in ElementTree.fromstring(svg).iter("text")]


def test_points_that_cannot_be_placed_are_left_out() -> None:
    log = Scale("y", is_log=True)
    points = (Point(1, 0), Point(2, math.inf), Point(3, math.nan), Point(4, 5, -1, math.inf))

    assert len(parts(chart("t", X, log, [Series("a", points)]), "path", "marker")) == 1 + 1, "one point and the legend"
    assert chart("t", X, log, [Series("a", points[:3])]) == ""
    assert chart("t", X, Y, []) == ""


@given(st.lists(st.tuples(st.floats(), st.floats()), max_size=5), st.booleans())
def test_any_points_give_a_chart_that_is_well_formed_or_none(pairs, is_log) -> None:
    svg = chart("t", Scale("x", is_log), Scale("y", is_log), [Series("a", tuple(Point(x, y) for x, y in pairs))])

    assert not svg or ElementTree.fromstring(svg).tag == "svg"


def test_doublings_span_the_sizes_with_few_marks() -> None:
    assert doublings(4096, 4096) == (4096,)
    found = doublings(12 * 1024, 64 * 2**20)
    assert found[0] <= 12 * 1024
    assert found[-1] >= 64 * 2**20
    assert len(found) <= 8


def test_the_parts_of_a_bar_lie_end_to_end_within_the_whole() -> None:
    svg = bar("t", [Part(0, "a", 1), Part(1, "none", 0), Part(2, "c", 1), Part(3, "too much", 9)], 4)
    spans = [(float(r["x"][:-1]), float(r["width"][:-1])) for r in parts(svg, "rect")]

    assert spans == [(0, 25), (25, 25), (50, 50)]
    assert [e.text for e in ElementTree.fromstring(svg).iter("text")] == ["A", "C", "D"]
    assert not parts(bar("t", [Part(0, "a", 1)], 0), "rect")


def test_a_lane_keeps_the_least_and_the_most_of_what_it_gathers() -> None:
    readings = [(float(t), 10.0, 11.0) for t in range(10_000)]
    readings[5000] = (5000.0, 1.0, 99.0)
    cells = gather(readings, 0, 10_000)

    assert len(cells) <= 250
    assert min(low for _, low, _ in cells) == 1
    assert max(high for _, _, high in cells) == 99
    (line, _) = parts(lane("t", readings, 0, 10_000, 2500), "polyline")
    xs = [float(pair.split(",")[0]) for pair in line["points"].split()]
    assert xs == sorted(xs)
    assert len(xs) == len(cells)
    assert 0 <= xs[0] < xs[-1] <= 1000
    assert parts(lane("t", readings, 0, 10_000, 2500), "line", "moment")[0]["x1"] == "250"


def test_an_event_is_marked_where_it_happened() -> None:
    readings = [(float(t), 0.0, float(t == 50)) for t in range(100)]
    (mark,) = parts(events("t", readings, 0, 100, None), "rect", "event")

    assert float(mark["x"]) + float(mark["width"]) / 2 == pytest.approx(500, abs=1)


def test_no_words_break_an_element() -> None:
    root = ElementTree.fromstring(picture(HOSTILE, element("text", text(HOSTILE)), class_='<"&'))

    for words in (root[0].text, root.get("aria-label")):
        assert words.startswith("<script>\"'&\\x00\\u202e😀")
        assert len(words) < 400
    assert root.get("class") == '<"&'
