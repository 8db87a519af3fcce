from __future__ import annotations

import math

import numpy as np
import pytest

from sglgate.decision import Block, schedule


@pytest.fixture
def blocks_of():
    """Blocks with the given log ratios, in ABBA order."""

    def make(log_ratios):
        orders = schedule(len(log_ratios))
        return [Block(100.0, 100.0 * math.exp(d), o) for d, o in zip(log_ratios, orders, strict=True)]

    return make


@pytest.fixture
def noisy(blocks_of):
    """``n`` blocks around a true ratio."""

    def make(n, ratio, sd=0.02, seed=1):
        return blocks_of(math.log(ratio) + sd * np.random.default_rng(seed).standard_normal(n))

    return make
