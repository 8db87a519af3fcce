"""Does the declared path serve the sizes that it claims, by SGLang's own dispatch?"""

from __future__ import annotations

from fixtures.gate import Gate
from fixtures.worlds import Worlds
from sglgate.allreduce import paths, plan
from sglgate.allreduce.verdicts import judge_declined, judge_engaged
from sglgate.config import Candidate


def test_engaged(candidate: Candidate, worlds: Worlds, gate: Gate) -> None:
    """Leaf of the dispatch and kernel, on every rank, eager and in a graph."""
    for ranks in worlds.sizes(candidate):
        question, world = worlds.question(candidate, ranks), worlds.get(candidate, ranks)
        shapes = plan.engaged_cases(question.claim, question.geometry)
        log = [line for ready in world.ready for line in ready.log_lines]
        refused = candidate.expect.allreduce.refused
        if refused is not None and (declined := paths.path(refused.path)).refusals:
            found = judge_declined(declined, log)
            gate.judge(
                f"log lines that decline {declined.name}, {ranks} ranks",
                len(found.detail["log"]),
                1,
                "at_least",
                "lines",
                verdict=found.verdict,
                reason=f"{found.reason}. {refused.reason} ({refused.link})",
            )
        for mode in ("eager", "graph"):
            found = judge_engaged(question.path, question.claim, world.engaged(shapes, mode=mode), log)
            served = [row for row in found.detail.get("served", []) if row["claimed"]]
            share = sum(row["by"] == [question.path.name] and row["kernel_seen"] for row in served)
            gate.judge(
                f"claimed sizes that {question.path.name} served, {ranks} ranks, {mode}",
                share,
                len(served),
                "equal",
                "sizes",
                verdict=found.verdict,
                reason=found.reason,
                n=len(served),
                detail=found.detail,
            )
