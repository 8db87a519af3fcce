"""Are these the GPUs that the profile is about?"""

from __future__ import annotations

import pytest

from fixtures.lane import Lane
from sglgate.node.facts import Nvml
from sglgate.preflight import gpus


@pytest.mark.gpus(1)
def test_right_gpus(nvml: Nvml, lane: Lane, judge) -> None:
    """Kind, number, memory."""
    judge(gpus.right_gpus(nvml, lane.profile))
