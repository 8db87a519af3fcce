from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from sglgate.decision import ALPHAS, LOOKS, joint_error, spend

RUNS = 100_000


def simulated(looks, alphas, prior_df=0):
    """The plain way: draw, test at each look with scipy's t, count who ever crossed."""
    rng = np.random.default_rng(11)
    noise = rng.standard_normal((RUNS, looks[-1]))
    prior = rng.chisquare(prior_df, RUNS) if prior_df else np.zeros(RUNS)
    crossed = np.zeros(RUNS, dtype=bool)
    for n, alpha in zip(looks, alphas, strict=True):
        df = prior_df + n - 1
        variance = (noise[:, :n].var(axis=1) * n + prior) / df
        crossed |= noise[:, :n].mean(axis=1) >= stats.t.isf(alpha, df) * np.sqrt(variance / n)
    return crossed.mean()


@pytest.mark.parametrize(
    ("looks", "alphas", "prior_df"),
    [
        ((3, 5, 8), (0.001, 0.012, 0.040), 0),
        ((3, 5, 8), (0.001, 0.012, 0.040), 12),
        ((3, 5, 8), (0.05, 0.05, 0.05), 0),
        (LOOKS, ALPHAS, 0),
        (LOOKS, ALPHAS, 24),
        ((2, 3, 12), (0.02, 0.01, 0.03), 3),
    ],
)
def test_the_exact_error_agrees_with_simulation(looks, alphas, prior_df):
    exact = joint_error(looks, alphas, prior_df)
    assert simulated(looks, alphas, prior_df) == pytest.approx(exact, abs=4 * math.sqrt(exact / RUNS))


def test_the_levels_of_the_issue_spend_a_little_less_than_it_says():
    assert joint_error((3, 5, 8), (0.001, 0.012, 0.040)) == pytest.approx(0.0469, abs=2e-4)


@pytest.mark.parametrize("prior_df", [0, 1, 4, 12, 60, 400])
def test_a_look_without_a_level_adds_nothing(prior_df):
    assert joint_error((8,), (0.05,), prior_df) == 0.05
    assert joint_error((4, 8), (1e-9, 0.05), prior_df) == pytest.approx(0.05, abs=1e-4)


def test_two_equal_looks_spend_between_once_and_twice_the_level():
    assert 0.02 < joint_error((4, 8), (0.02, 0.02)) < 0.04


def test_a_history_only_lowers_the_joint_error():
    errors = [joint_error(LOOKS, ALPHAS, df) for df in (0, 4, 12, 24, 100)]
    assert errors == sorted(errors, reverse=True)


def test_spend_scales_weights_to_the_whole_level():
    alphas = spend((4, 8), (1, 3))
    assert alphas[1] == pytest.approx(3 * alphas[0])
    assert joint_error((4, 8), alphas) == pytest.approx(0.05, abs=1e-4)
