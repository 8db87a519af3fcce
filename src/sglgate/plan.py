"""What a run would launch, how often, on how many GPUs, and how long that may take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from sglgate.config import Candidate, Profile
from sglgate.config.profile import Deadlines
from sglgate.launch.grounds import usable_cores
from sglgate.needs import in_order, launches_by_candidate
from sglgate.past import past_ready_s, past_total_s
from sglgate.weights import disk_bytes_per_s, load_s, scaled, weight_bytes


@dataclass(frozen=True)
class PlannedCandidate:
    """One candidate's share of a run. Seconds; None where nothing is known.

    ``ready_s`` is of one launch and ``basis`` says where it comes from; ``total_s`` is of all its tests, launches
    included, as earlier runs took. ``alone``: speed over many launches needs
    the whole machine.
    """

    candidate: str
    slots: int
    expected_failure: str | None
    launches: int
    ready_s: float | None
    basis: str
    total_s: float | None
    deadline_s: float
    alone: bool

    @property
    def expected_s(self) -> float | None:
        """Tests and all if they were seen, else the launches alone."""
        if self.total_s is not None:
            return self.total_s
        return self.launches * self.ready_s if self.ready_s is not None else None


def plan_run(
    profile: Profile,
    candidates: Sequence[Candidate],
    reports: Path,
    folders: dict[str, Path],
    *,
    two_releases: bool = False,
) -> list[PlannedCandidate]:
    """Every candidate's share, in order.

    Args:
        profile: its deadlines.
        candidates: what would be judged.
        reports: earlier runs, whose times teach.
        folders: where the models lie, by the candidate's ``model``; those that are not here are left out.
        two_releases: whether speed is held against the release that serves now.
    """
    ready_s, total_s = past_ready_s(reports), past_total_s(reports)
    disk = {folder: (weight_bytes(folder), disk_bytes_per_s(folder)) for folder in set(folders.values())}
    launches = launches_by_candidate(in_order(candidates, two_releases=two_releases))
    planned = []
    for candidate in candidates:
        size, rate = disk.get(folders.get(candidate.model, Path()), (0, None))
        deadlines = scaled(profile.deadlines, size, rate)
        one_s, basis = _one_launch_s(ready_s.get(candidate.name, []), size, rate, deadlines)
        planned.append(
            PlannedCandidate(
                candidate=candidate.name,
                slots=candidate.tensor_parallel,
                expected_failure=candidate.expect.failure.cause if candidate.expect.failure else None,
                launches=launches[candidate.name],
                total_s=total_s.get(candidate.name),
                deadline_s=deadlines.ready_s,
                alone=bool(candidate.expect.speed or (candidate.expect.eagle3 and candidate.expect.eagle3.speed)),
                ready_s=one_s,
                basis=basis,
            )
        )
    return planned


def _one_launch_s(
    seen: Sequence[float], size: int, rate: float | None, deadlines: Deadlines
) -> tuple[float | None, str]:
    """Seconds of one launch, and how that is known."""
    if seen:
        return median(seen), f"median of {len(seen)}"
    if size and rate:
        # All else of a start is taken at a third of what it may last.
        rest_s = (deadlines.ready_s - deadlines.weights_s) / 3
        return load_s(size, rate) + rest_s, f"guessed: {size / 1e9:.1f} GB at {rate / 1e9:.1f} GB/s"
    return None, "never seen, and its model is not here"


def slots_of(profile: Profile) -> int:
    """What there is to lease: the profile's GPUs, or the cores of a machine without."""
    return profile.machine.gpus or usable_cores()


def side_by_side_s(planned: Sequence[PlannedCandidate], slots: int, workers: int) -> float:
    """Seconds that so many workers take, each candidate on its slots, first come first served.

    A candidate whose time is unknown counts as nothing; one with a speed gate has the machine to itself.
    """
    ends: list[tuple[float, int]] = []  # of what runs: when it ends, and how many slots it has
    now = 0.0
    for item in planned:
        wanted = slots if item.alone else min(item.slots, slots)
        while len(ends) >= workers or sum(held for _, held in ends) + wanted > slots:
            ends.sort()
            now = max(now, ends.pop(0)[0])
        ends.append((now + (item.expected_s or 0.0), wanted))
    return max((end for end, _ in ends), default=now)
