"""Does the stack's own torch run a kernel on every device?"""

from __future__ import annotations

from fixtures.lane import Lane
from sglgate.node.facts import ProbeAnswer
from sglgate.preflight import fabric


def test_kernels(loaded: ProbeAnswer, lane: Lane, judge) -> None:
    """A product of matrices, exact: "no kernel image" is found here and not in the first launch."""
    devices = [f"cuda:{index}" for index in range(lane.profile.machine.gpus)] or ["cpu"]
    judge(fabric.kernels(loaded, devices))
