"""Does every GPU have its whole PCIe link?"""

from __future__ import annotations

import pytest

from sglgate.config.profile import Bounds
from sglgate.node.facts import Card, ProbeAnswer
from sglgate.preflight import gpus


@pytest.mark.gpus(1)
def test_link(cards: list[Card], loaded: ProbeAnswer, bounds: Bounds, judge) -> None:
    """Generation and width under load, and no replays meanwhile."""
    judge(gpus.link(cards, loaded, bounds))
