"""Is the pool the same the next time, and does the smallest fraction that works lie where the arithmetic says?"""

from __future__ import annotations

import pytest

from fixtures.gate import Gate
from sglgate.config import Candidate
from sglgate.kv.agree import launches_agree
from sglgate.kv.live import starting_fraction, target_pools
from sglgate.launch import LaunchError
from sglgate.launch.pool import ServerPool

pytestmark = pytest.mark.relaunches


def test_two_launches_agree(candidate: Candidate, pool: ServerPool, gate: Gate) -> None:
    """The same candidate, launched again: what differs must be accounted for by the free memory that each found."""
    first = pool.get(candidate)
    second = pool.fresh(candidate)
    for server in (first, second):
        gate.show_log(server.log)
    for item in launches_agree(first.record, second.record):
        gate.judge(
            f"tokens of the {item.role}'s pool, rank {item.rank or 'TP0'}, second launch less first",
            abs(item.second - item.first),
            item.allowed,
            "at_most",
            "tokens",
            n=2,
        )


def test_fraction_window(candidate: Candidate, pool: ServerPool, gate: Gate) -> None:
    """Just below the predicted fraction the launch fails for want of KV memory, just above it a pool is there."""
    margin = candidate.expect.kv.window_margin
    assert margin is not None
    server = pool.get(candidate)
    starts = starting_fraction(server.record)
    lower, higher = max(0.0005, starts - margin), starts + margin

    cause = _cause_of_failure(_with_fraction(candidate, "below", lower), pool, gate)
    reason = f"at {lower:.4f}; a pool should start at {starts:.4f}"
    gate.judge("cause of the failure just below the window", cause, "kv_budget_exhausted", "equal", "", reason=reason)

    above = pool.fresh(_with_fraction(candidate, "above", higher))
    gate.show_log(above.log)
    reason = f"at {higher:.4f}; a pool should start at {starts:.4f}"
    tokens = min(pool.tokens for pool in target_pools(above.record))
    gate.judge("KV pool just above the window's foot", tokens, 1, "at_least", "tokens", reason=reason)


def _cause_of_failure(candidate: Candidate, pool: ServerPool, gate: Gate) -> str:
    try:
        server = pool.fresh(candidate)
    except LaunchError as error:
        if error.log is not None:
            gate.show_log(error.log)
        return error.diagnosis.cause if error.diagnosis else "unknown"
    gate.show_log(server.log)
    return "none"


def _with_fraction(candidate: Candidate, where: str, fraction: float) -> Candidate:
    arguments = {**candidate.arguments, "mem-fraction-static": round(fraction, 5)}
    return candidate.model_copy(update={"name": f"{candidate.name}--{where}", "arguments": arguments})
