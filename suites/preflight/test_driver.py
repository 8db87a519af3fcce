"""Do the driver and the stack's CUDA fit together?"""

from __future__ import annotations

import pytest

from sglgate.config.profile import Bounds
from sglgate.node.facts import Nvml
from sglgate.preflight import gpus
from sglgate.stack import Stack


@pytest.mark.gpus(1)
def test_driver(nvml: Nvml, stack: Stack, bounds: Bounds, judge) -> None:
    """The driver's version in its range, its CUDA new enough for the stack's torch."""
    judge(gpus.driver(nvml, bounds, stack.torch_build.get("cuda")))
