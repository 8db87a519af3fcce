"""Does what one GPU writes to another arrive, and how fast?"""

from __future__ import annotations

import pytest

from fixtures.gate import Gate
from fixtures.lane import Lane
from fixtures.session import RUN
from sglgate.config.profile import Bounds
from sglgate.node.facts import ProbeAnswer
from sglgate.preflight import fabric
from sglgate.preflight.matrix import peer_matrix


@pytest.mark.gpus(2)
def test_peers(
    peer_probe: ProbeAnswer, lane: Lane, bounds: Bounds, gate: Gate, judge, pytestconfig: pytest.Config
) -> None:
    """Every pair in both directions: copied, written and read by kernels, each byte compared; then timed."""
    gpus = lane.profile.machine.gpus
    picture = pytestconfig.stash[RUN].logs / "peers.svg"
    pairs = (peer_probe.result or {}).get("pairs", {})
    picture.write_text(peer_matrix(pairs, gpus, f"Peer copies, {lane.profile.name}"), encoding="utf-8")
    gate.show_log(picture)
    judge(fabric.peers(peer_probe, gpus, bounds))
