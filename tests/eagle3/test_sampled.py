"""Samples of two arms: one distribution passes, a verify that sharpens it does not."""

from __future__ import annotations

import random

import pytest

from sglgate.eagle3.sampled import compare_samples


def draw(seed, weights, n=256):
    rng = random.Random(seed)
    return [tuple(rng.choices(range(len(weights)), weights, k=4)) for _ in range(n)]


@pytest.mark.parametrize("seed", range(5))
def test_one_distribution_agrees_and_greedy_tokens_do_not(seed):
    weights = [5, 3, 2, 1, 0.1, 0.1]
    left = draw(seed, weights)
    assert compare_samples(left, draw(seed + 100, weights))[0] > 0.001
    assert compare_samples(left, [(0, 0, 0, 0)] * 256)[0] < 0.001
    assert compare_samples(left, draw(seed + 100, [6, 1, 2, 2, 0.1, 0.1]))[0] < 0.001


def test_both_arms_certain_of_one_token_agree():
    assert compare_samples([(1, 1, 1, 1)] * 20, [(1, 1, 1, 1)] * 20) == (1.0, 40)
