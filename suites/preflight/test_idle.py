"""Does anybody else use this machine?"""

from __future__ import annotations

from fixtures.lane import Lane
from sglgate.config.profile import Bounds
from sglgate.node.facts import Sample
from sglgate.preflight import gpus


def test_idle(at_rest: list[Sample], lane: Lane, bounds: Bounds, judge) -> None:
    """GPUs without a process, memory held, or work; and the host's cores."""
    judge(gpus.idle(at_rest, bounds, lane.profile.machine.gpus))
