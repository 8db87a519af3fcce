"""A change of level is found where it is, and seldom where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from sglgate.store.changes import change_points


@pytest.mark.parametrize("shift", [0.95, 1.05])
def test_a_change_is_found_at_its_place_with_both_levels(shift: float) -> None:
    rng = np.random.default_rng(1)
    series = 100 * np.concatenate([np.ones(20), shift * np.ones(15)]) * np.exp(0.01 * rng.standard_normal(35))

    (change,) = change_points(series.tolist())

    assert abs(change.index - 20) <= 1
    assert change.ratio == pytest.approx(shift, abs=0.01)
    assert change.p <= 0.01


def test_two_changes_are_both_found() -> None:
    rng = np.random.default_rng(2)
    series = np.repeat([100.0, 90.0, 105.0], 15) + rng.standard_normal(45)

    assert [change.index for change in change_points(series.tolist())] == [15, 30]


def test_noise_and_single_wild_values_are_no_change() -> None:
    rng = np.random.default_rng(3)
    found = 0
    for _ in range(100):
        series = rng.standard_t(2, 30)
        series[7] = 1e9
        found += bool(change_points(series.tolist()))

    # The level is 1 %: of 100 series more than 5 have a chance of 0.05 %.
    assert found <= 5


def test_a_constant_or_short_series_has_no_change() -> None:
    assert change_points([1.0] * 50) == []
    assert change_points([1.0, 2.0, 3.0]) == []
    assert change_points([]) == []
