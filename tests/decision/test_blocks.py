from __future__ import annotations

import math

import pytest

from sglgate.decision import Block, order_of, schedule
from sglgate.decision.blocks import is_measured, need_abba, order_effect
from sglgate.errors import MisuseError


def blocks_on(curve, orders):
    """Equal arms on a machine whose speed follows ``curve`` (a log) over the launches."""
    made = []
    for index, order in enumerate(orders):
        first, second = math.exp(curve(2 * index)), math.exp(curve(2 * index + 1))
        made.append(Block(first, second, order) if order == "AB" else Block(second, first, order))
    return made


def mean(blocks):
    return sum(block.log_ratio for block in blocks) / len(blocks)


@pytest.mark.parametrize("n", [2, 4, 6, 8])
def test_a_linear_drift_cancels_at_every_even_look(n):
    assert mean(blocks_on(lambda t: 0.02 * t, schedule(n))) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("n", [4, 8])
def test_a_quadratic_drift_cancels_after_every_fourth_block(n):
    assert mean(blocks_on(lambda t: 0.003 * t * t, schedule(n))) == pytest.approx(0, abs=1e-12)


def test_a_drift_stays_when_the_baseline_always_runs_first():
    assert mean(blocks_on(lambda t: 0.02 * t, ["AB"] * 4)) == pytest.approx(0.02)


def test_the_schedule_is_abba_mirrored():
    assert schedule(8) == ("AB", "BA", "BA", "AB", "AB", "BA", "BA", "AB")
    assert order_of(5) == "BA"


def test_the_drift_from_launch_to_launch_is_reported():
    assert order_effect(blocks_on(lambda t: 0.02 * t, schedule(4))) == pytest.approx(0.02)
    assert order_effect([Block(1, 2, "AB")]) is None


@pytest.mark.parametrize("value", [None, 0, 0.0, -1.0, math.nan, math.inf, True, "812"])
def test_what_is_not_a_positive_finite_number_was_not_measured(value):
    assert not is_measured(value)
    with pytest.raises(ValueError, match="not measured"):
        _ = Block(value, 1.0, "AB").log_ratio


def test_extreme_values_do_not_overflow():
    assert Block(1e-300, 1e300, "AB").log_ratio == pytest.approx(600 * math.log(10))


def test_blocks_all_in_one_order_are_refused():
    need_abba([Block(1, 2, order) for order in ("AB", "BA", "AB")])
    need_abba([Block(1, 2, "ABBA")] * 3)
    with pytest.raises(MisuseError, match="ABBA order"):
        need_abba([Block(1, 2, "AB")] * 2)


def test_an_unknown_order_is_refused():
    with pytest.raises(MisuseError, match="AB, BA or ABBA"):
        Block(1, 2, "BAAB")
