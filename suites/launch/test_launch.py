"""Does the server come up, or fail exactly as its candidate declares?"""

from __future__ import annotations

import pytest

from fixtures.gate import Gate
from sglgate.config import Candidate
from sglgate.launch import LaunchError
from sglgate.launch.pool import ServerPool


def test_as_declared(candidate: Candidate, pool: ServerPool, gate: Gate, request: pytest.FixtureRequest) -> None:
    """Ready means that it answered a real ``/generate``; an expected failure must have the declared cause."""
    expected = candidate.expect.failure
    if expected is None:
        server = request.getfixturevalue("server")
        gate.show_log(server.log)
        bound = server.profile.deadlines.ready_s
        gate.judge("time to the first answer", server.phase_s["total"], bound, "at_most", "s", detail=server.phase_s)
        return
    try:
        pool.get(candidate)
    except LaunchError as error:
        if error.log is not None:
            gate.show_log(error.log)
        cause = error.diagnosis.cause if error.diagnosis else None
        gate.judge("cause of the failed launch", cause, expected.cause, "equal", "", reason=expected.reason)
    else:
        gate.judge("cause of the failed launch", "none: it came up", expected.cause, "equal", "", reason=expected.link)
