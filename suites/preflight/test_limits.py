"""May a process of this user have what a server needs?"""

from __future__ import annotations

from sglgate.config.profile import Bounds
from sglgate.node import NodeSource
from sglgate.preflight import host


def test_limits(node: NodeSource, bounds: Bounds, judge) -> None:
    """Shared memory, open files, locked memory; huge pages are reported."""
    judge(host.limits(node.room("shm"), node.text("/proc/self/limits"), node.text("/proc/meminfo"), bounds))
