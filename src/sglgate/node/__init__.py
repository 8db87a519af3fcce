"""The node under the suite: what it is, what it says, live or recorded. One seam, :class:`NodeSource`, leads to it."""

from sglgate.node.fit import describe_node, require_node
from sglgate.node.live import Live
from sglgate.node.nvml import NoGpuError
from sglgate.node.recording import About, Recorder, Replay
from sglgate.node.source import NodeSource, NotRecordedError, NotReplayableError

__all__ = [
    "About",
    "Live",
    "NoGpuError",
    "NodeSource",
    "NotRecordedError",
    "NotReplayableError",
    "Recorder",
    "Replay",
    "describe_node",
    "require_node",
]
