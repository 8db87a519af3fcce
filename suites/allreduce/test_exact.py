"""Is every sum right to the last bit? One wrong element anywhere fails."""

from __future__ import annotations

from fixtures.gate import Gate
from fixtures.worlds import Worlds
from sglgate.allreduce import plan
from sglgate.allreduce.verdicts import judge_exact
from sglgate.config import Candidate


def test_exact(candidate: Candidate, worlds: Worlds, gate: Gate) -> None:
    """All dtypes, 16 bytes to 64 MiB, the model's own shapes, the path's limits; tolerance zero."""
    for ranks in worlds.sizes(candidate):
        question, world = worlds.question(candidate, ranks), worlds.get(candidate, ranks)
        cases = plan.exact_cases(question.path, question.host, question.geometry)
        found = judge_exact(question.path, question.claim, cases, world.exact(cases))
        gate.judge(
            f"broken calls, {ranks} ranks",
            found.detail.get("failures", len(found.detail.get("ranks_differ", []))),
            0,
            "equal",
            "calls",
            verdict=found.verdict,
            reason=found.reason,
            n=found.detail["calls_checked"],
            detail=found.detail,
        )
