"""Is this still the node that bringup found?"""

from __future__ import annotations

import pytest

from fixtures.lane import Lane
from sglgate.node import NodeSource
from sglgate.node.facts import Nvml, ProbeAnswer
from sglgate.preflight import facts
from sglgate.run import now


@pytest.mark.pinned
def test_as_pinned(node: NodeSource, lane: Lane, loaded: ProbeAnswer, judge, request: pytest.FixtureRequest) -> None:
    """Cards, driver, clocks and peer bandwidth against the facts file that the profile names."""
    pinned = facts.read_node_facts(lane.profile)
    assert pinned is not None
    nvml: Nvml | None = request.getfixturevalue("nvml") if lane.profile.needs_gpu else None
    peers = request.getfixturevalue("peer_probe") if lane.profile.machine.gpus > 1 else None
    judge(facts.as_pinned(pinned, facts.facts_of(node, lane.profile, now(), nvml, loaded, peers)))
