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
    """One candidate's launches. ``ready_s`` is the expected time to ready of each, None where none was ever seen."""

    candidate: str
    tensor_parallel: int
    expected_failure: str | None
    ready_s: float | None
    seen: int
    deadline_s: float
    launches: int


def plan_launches(profile: Profile, candidates: Iterable[Candidate], reports: Path) -> list[PlannedLaunch]:
    """Every candidate's launches; their time is the median of those that earlier runs recorded."""
    seen = past_ready_s(reports)
    return [
        PlannedLaunch(
            candidate=c.name,
            tensor_parallel=c.tensor_parallel,
            expected_failure=c.expect.failure.cause if c.expect.failure else None,
            ready_s=median(seen[c.name]) if c.name in seen else None,
            seen=len(seen.get(c.name, ())),
            deadline_s=profile.deadlines.ready_s,
            launches=launches_of(c),
        )
        for c in candidates
    ]


def launches_of(candidate: Candidate) -> int:
    """One for all tests that share it, and those that the declared needs cost beside it."""
    need, speed = candidate.expect.kv, candidate.expect.speed
    own = speed.launches if speed else 0
    if candidate.suites is not None and "kv" not in candidate.suites:
        return 1 + own
    return 1 + own + need.relaunch + 2 * (need.window_margin is not None)


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
