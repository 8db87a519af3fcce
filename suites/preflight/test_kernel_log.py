"""Has the kernel seen a GPU or its link fail since boot?"""

from __future__ import annotations

import pytest

from sglgate.node import NodeSource
from sglgate.preflight import gpus


@pytest.mark.gpus(1)
def test_kernel_log(node: NodeSource, judge) -> None:
    """Xid of the hardware, uncorrected PCIe errors."""
    judge(gpus.kernel_log(node.tool("kernel-log")))
