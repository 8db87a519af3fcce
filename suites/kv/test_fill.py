"""Can the pool be used? It is filled with real requests, and the answers stay right meanwhile."""

from __future__ import annotations

from fixtures.gate import Gate
from sglgate.config import Candidate
from sglgate.kv.fill import fill_pool
from sglgate.launch import Server


def test_filled_without_retraction(candidate: Candidate, server: Server, gate: Gate) -> None:
    """So many tokens are held at once as the candidate asks, and no request had to be thrown out for another."""
    gate.show_log(server.log)
    need = candidate.expect.kv
    before = server.record.retracted_requests
    filled = fill_pool(server, need.fill, need.fill_deadline_s, need.answers)
    server.watch.look()
    peak, n = filled.peak_share, filled.requests
    gate.judge("KV pool in use at the peak", peak, need.fill, "at_least", "of its tokens", n=n, detail=filled.detail)
    retracted = server.record.retracted_requests - before
    gate.judge("requests retracted while full", retracted, 0, "equal", "requests", n=n)
    gate.judge("requests that filled it still when the answers came", filled.in_flight, 1, "at_least", "requests", n=n)
    n = filled.compared
    gate.judge(
        "answers that are wrong",
        len(filled.wrong),
        0,
        "equal",
        "answers",
        n=n,
        reason="; ".join(filled.wrong),
        detail={"answers": filled.answers},
    )
    changed = len(filled.changed)
    gate.judge("answers that changed while full", changed, 0, "equal", "answers", n=n, reason="; ".join(filled.changed))
