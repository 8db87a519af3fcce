"""Is there room for what a run writes and a model needs?"""

from __future__ import annotations

from sglgate.config.profile import Bounds
from sglgate.node import NodeSource
from sglgate.preflight import host


def test_room(node: NodeSource, bounds: Bounds, judge) -> None:
    """Disk for reports, memory for a new process."""
    judge(host.room(node.room("reports"), node.text("/proc/meminfo"), bounds))
