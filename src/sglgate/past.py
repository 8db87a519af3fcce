"""What earlier runs teach about time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from sglgate.errors import SglgateError
from sglgate.run import read_run, read_tests


def past_ready_s(reports: Path) -> dict[str, list[float]]:
    """Seconds to ready of every recorded launch, by candidate."""
    seen: dict[str, list[float]] = {}
    for _, launches in _runs(reports):
        for launch in launches:
            phases = launch.get("phase_s")
            if isinstance(phases, dict) and isinstance(phases.get("total"), int | float):
                seen.setdefault(str(launch.get("candidate")), []).append(float(phases["total"]))
    return seen


def past_test_s(reports: Path) -> dict[str, float]:
    """Median seconds of every test in earlier runs, by its id."""
    seen: dict[str, list[float]] = {}
    for folder, _ in _runs(reports):
        try:
            for test, duration_s in read_tests(folder).items():
                seen.setdefault(test, []).append(duration_s)
        except SglgateError:
            continue
    return {test: median(durations) for test, durations in seen.items()}


def _runs(reports: Path) -> Iterator[tuple[Path, Sequence[dict[str, Any]]]]:
    """Runs that teach: with launches of their own. A replay, and a run that was unfit from the start, are quick."""
    for path in sorted(reports.glob("*/run.json")):
        try:
            info = read_run(path.parent)
        except SglgateError:
            continue
        if info.launches and not info.replay:
            yield path.parent, info.launches


def past_total_s(reports: Path) -> dict[str, float]:
    """Seconds of all tests of each candidate."""
    total: dict[str, float] = {}
    for test, duration_s in past_test_s(reports).items():
        name = candidate_in(test)
        if name:
            total[name] = total.get(name, 0) + duration_s
    return total


def candidate_in(test: str) -> str | None:
    """The candidate that a test id names."""
    return test.rpartition("[")[2].removesuffix("]") if test.endswith("]") else None
