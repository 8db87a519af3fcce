"""Is any GPU hot, or held back?"""

from __future__ import annotations

import pytest

from sglgate.config.profile import Bounds
from sglgate.node.facts import Card, ProbeAnswer
from sglgate.preflight import gpus


@pytest.mark.gpus(1)
def test_cool(cards: list[Card], loaded: ProbeAnswer, bounds: Bounds, judge) -> None:
    """Temperature at rest and under load; thermal and power brakes on the clocks."""
    judge(gpus.cool(cards, loaded, bounds))
