"""Is the path no slower than the baseline, in every size that it claims?"""

from __future__ import annotations

from dataclasses import asdict

import pytest

from fixtures.gate import Gate
from fixtures.worlds import Worlds
from sglgate.allreduce import speed
from sglgate.allreduce.paths import Claim
from sglgate.config import Candidate
from sglgate.evidence import Verdict
from sglgate.telemetry import Telemetry


@pytest.mark.usefixtures("whole_machine")
def test_no_slower(candidate: Candidate, worlds: Worlds, telemetry: Telemetry, gate: Gate) -> None:
    """The upper bound of the time ratio in each size bucket; A/A first, correct before and after."""
    for ranks in worlds.sizes(candidate):
        question, world = worlds.question(candidate, ranks), worlds.get(candidate, ranks)
        metric = f"time / {world.ready[0].backend}'s, worst size, {ranks} ranks"
        bound = 1 + candidate.expect.allreduce.margin
        if not isinstance(question.claim, Claim):
            gate.judge(
                metric,
                None,
                bound,
                "at_most",
                "ratio",
                verdict=Verdict.NOT_EXERCISED,
                reason=question.claim.reason,
            )
            continue
        buckets = speed.buckets(question.claim, ["bf16"], question.timed_bytes, worlds.cache_bytes(question))
        baseline_world = worlds.baseline(candidate, ranks)
        found = speed.compare(
            world,
            question.path,
            question.claim,
            buckets,
            margin=candidate.expect.allreduce.margin,
            effort=speed.Effort.of(question.device, two_worlds=baseline_world is not None),
            baseline_world=baseline_world,
            telemetry=telemetry,
        )
        ratios = [row for row in found.rows if row.ratio is not None]
        worst = max(ratios, key=lambda row: row.ratio, default=None)
        gate.judge(
            metric,
            worst.ratio if worst else None,
            bound,
            "at_most",
            "ratio",
            verdict=found.finding.verdict,
            reason=found.finding.reason,
            n=found.blocks,
            interval=worst.interval if worst else None,
            detail={
                **found.finding.detail,
                "path": question.path.name,
                "baseline": world.ready[0].backend,
                "ranks": ranks,
                "limit_bytes": question.claim.max_bytes,
                "rows": [asdict(row) for row in found.rows],
                "aa": {name: fit.reason for name, fit in (found.fitness or {}).items()},
            },
        )
