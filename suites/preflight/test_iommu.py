"""Does anything between the GPUs translate or redirect what they send?"""

from __future__ import annotations

import pytest

from sglgate.config.profile import Bounds
from sglgate.node import NodeSource
from sglgate.node.facts import Card
from sglgate.preflight import fabric


@pytest.mark.gpus(1)
def test_iommu(cards: list[Card], node: NodeSource, bounds: Bounds, judge) -> None:
    """IOMMU domains, ACS of the bridges above the GPUs."""
    judge(fabric.iommu(cards, node, bounds))
