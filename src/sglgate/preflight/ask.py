"""What preflight asks a node for, and with which arguments: a recording answers exactly these questions."""

from __future__ import annotations

from typing import Final

from sglgate.config import Profile
from sglgate.node.facts import ProbeAnswer, Sample
from sglgate.node.source import NodeSource

_LOOKS: Final = 4
_LOOK_INTERVAL_S: Final = 0.5
#: Long enough for clocks to settle and for twenty looks; heat takes minutes, and telemetry watches it in the run.
_LOAD_S: Final = 5


def at_rest(node: NodeSource) -> list[Sample]:
    """The machine over two seconds, before it gets any work."""
    return node.watch(_LOOKS, _LOOK_INTERVAL_S)


def kernels(node: NodeSource, profile: Profile) -> ProbeAnswer:
    """A kernel of the stack's torch on every device; then all GPUs at work for some seconds."""
    load = ["--load-s", str(_LOAD_S)] if profile.needs_gpu else []
    deadline_s = profile.preflight.kernel_deadline_s
    return node.probe("kernels", ["--devices", str(profile.machine.gpus), *load], deadline_s)


def peers(node: NodeSource, profile: Profile) -> ProbeAnswer:
    """Every ordered pair of GPUs."""
    return node.probe("peers", ["--devices", str(profile.machine.gpus)], profile.preflight.peer_deadline_s)


def collectives(node: NodeSource, profile: Profile, ranks: int, *, peers: bool = True) -> ProbeAnswer:
    """All-reduce of every size on so many ranks; without ``peers``, NCCL takes the way through the host."""
    device = "cuda" if profile.needs_gpu else "cpu"
    arguments = ["--ranks", str(ranks), "--device", device, *([] if peers else ["--no-p2p"])]
    return node.probe("collectives", arguments, profile.preflight.collective_deadline_s)
