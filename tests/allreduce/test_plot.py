from xml.etree import ElementTree

import pytest

from sglgate.allreduce import plot
from sglgate.allreduce.sizes import KIB, MIB

FAST = plot.Series("shm <fast>", ((4 * KIB, 20.0), (64 * KIB, 45.0), (1 * MIB, 700.0)))
SLOW = plot.Series("gloo", ((4 * KIB, 200.0), (64 * KIB, 260.0), (1 * MIB, 800.0)))


def test_the_plot_is_well_formed_and_has_a_line_and_dots_for_every_path() -> None:
    root = ElementTree.fromstring(plot.time_against_size([FAST, SLOW], {"limit": 256 * KIB}, "2 ranks & bf16"))
    tags = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert tags.count("polyline") == 2
    assert tags.count("circle") == 6
    texts = [element.text for element in root.iter() if element.text]
    assert "limit 256 KiB" in texts
    assert "shm <fast>" in texts


def test_equal_ratios_are_equal_distances_on_both_axes() -> None:
    drawn = plot.time_against_size([plot.Series("a", ((KIB, 10.0), (4 * KIB, 100.0), (16 * KIB, 1000.0)))], {}, "t")
    root = ElementTree.fromstring(drawn)
    line = next(element for element in root.iter() if element.tag.endswith("polyline"))
    points = [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    assert y2 < y0, "more time is higher up"


def test_a_single_point_can_be_plotted_and_none_cannot() -> None:
    assert "<circle" in plot.time_against_size([plot.Series("a", ((KIB, 10.0),))], {}, "t")
    with pytest.raises(ValueError, match="nothing to plot"):
        plot.time_against_size([], {"limit": KIB}, "t")
