"""What a run would launch, how often, and how long that may take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from sglgate.config import Candidate, Profile
from sglgate.errors import SglgateError
from sglgate.run import read_run


@dataclass(frozen=True)
class PlannedLaunch:
    """One launch: of what, at which TP, and its expected time to ready, seconds; None where nothing was ever seen."""

    candidate: str
    tensor_parallel: int
    expected_failure: str | None
    ready_s: float | None
    seen: int
    deadline_s: float


def plan_launches(profile: Profile, candidates: Iterable[Candidate], reports: Path) -> list[PlannedLaunch]:
    """One launch a candidate; its time is the median of those that earlier runs recorded."""
    seen = past_ready_s(reports)
    limits = profile.deadlines
    deadline_s = limits.process_s + limits.weights_s + limits.kv_s + limits.graphs_s + limits.first_token_s
    return [
        PlannedLaunch(
            candidate=c.name,
            tensor_parallel=c.tensor_parallel,
            expected_failure=c.expect.failure.cause if c.expect.failure else None,
            ready_s=median(seen[c.name]) if c.name in seen else None,
            seen=len(seen.get(c.name, ())),
            deadline_s=deadline_s,
        )
        for c in candidates
    ]


def past_ready_s(reports: Path) -> dict[str, list[float]]:
    """Seconds to ready of every recorded launch, by candidate. A run that cannot be read teaches nothing."""
    seen: dict[str, list[float]] = {}
    for path in sorted(reports.glob("*/run.json")):
        try:
            launches: Sequence[dict[str, object]] = read_run(path.parent).launches
        except SglgateError:
            continue
        for launch in launches:
            phases = launch.get("phase_s")
            if isinstance(phases, dict) and isinstance(phases.get("total"), int | float):
                seen.setdefault(str(launch.get("candidate")), []).append(float(phases["total"]))
    return seen
