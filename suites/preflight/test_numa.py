"""Do the GPUs lie on the NUMA nodes that the profile names, and may this process use their cores?"""

from __future__ import annotations

import pytest

from sglgate.config.profile import Bounds
from sglgate.node import NodeSource
from sglgate.node.facts import Card
from sglgate.preflight import host


@pytest.mark.gpus(1)
def test_numa(cards: list[Card], node: NodeSource, bounds: Bounds, judge) -> None:
    """Number of nodes, even spread, CPU affinity."""
    judge(host.numa(cards, node, bounds))
