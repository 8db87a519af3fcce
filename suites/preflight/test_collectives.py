"""Do two ranks, and all of them, sum every size exactly and in time?"""

from __future__ import annotations

import pytest

from fixtures.lane import Lane
from sglgate.node import NodeSource
from sglgate.node.facts import ProbeAnswer
from sglgate.preflight import ask, fabric


@pytest.mark.gpus(2, or_cpu=True)
def test_two_ranks(node: NodeSource, lane: Lane, loaded: ProbeAnswer, judge) -> None:
    """NCCL, or gloo on the CPU: 8 bytes to 64 MiB."""
    _sweep(node, lane, judge, 2)


@pytest.mark.gpus(4)
def test_all_ranks(node: NodeSource, lane: Lane, loaded: ProbeAnswer, judge) -> None:
    """The same with one rank on every GPU."""
    _sweep(node, lane, judge, lane.profile.machine.gpus)


def _sweep(node: NodeSource, lane: Lane, judge, ranks: int) -> None:
    found, apart = ask.collectives(node, lane.profile, ranks), None
    if lane.profile.needs_gpu and fabric.collective_problems(found):
        apart = ask.collectives(node, lane.profile, ranks, peers=False)
    judge(fabric.collectives(found, ranks, apart))
