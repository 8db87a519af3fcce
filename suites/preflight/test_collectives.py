"""Do two ranks, and all of them, sum every size exactly and in time?"""

from __future__ import annotations

import pytest

from fixtures.lane import Lane
from sglgate.config.profile import Bounds
from sglgate.node import NodeSource
from sglgate.node.facts import ProbeAnswer
from sglgate.preflight import fabric


def test_two_ranks(node: NodeSource, lane: Lane, bounds: Bounds, loaded: ProbeAnswer, judge) -> None:
    """NCCL, or gloo on the CPU: 8 bytes to 64 MiB."""
    _sweep(node, lane, bounds, judge, 2)


@pytest.mark.gpus(4)
def test_all_ranks(node: NodeSource, lane: Lane, bounds: Bounds, loaded: ProbeAnswer, judge) -> None:
    """The same with one rank on every GPU."""
    _sweep(node, lane, bounds, judge, lane.profile.machine.gpus)


def _sweep(node: NodeSource, lane: Lane, bounds: Bounds, judge, ranks: int) -> None:
    device = "cuda" if lane.profile.needs_gpu else "cpu"
    arguments = ["--ranks", str(ranks), "--device", device]
    found = node.probe("collectives", arguments, bounds.collective_deadline_s)
    apart = None
    if device == "cuda" and fabric.collective_problems(found):
        apart = node.probe("collectives", [*arguments, "--no-p2p"], bounds.collective_deadline_s)
    judge(fabric.collectives(found, ranks, apart))
