"""Are the GPUs set as they must be, and all alike?"""

from __future__ import annotations

import pytest

from sglgate.config.profile import Bounds
from sglgate.node.facts import Card
from sglgate.preflight import gpus


@pytest.mark.gpus(1)
def test_settings(cards: list[Card], bounds: Bounds, judge) -> None:
    """MIG, persistence, ECC mode, power limit, VBIOS."""
    judge(gpus.settings(cards, bounds))
