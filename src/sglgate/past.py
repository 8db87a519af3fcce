"""What earlier runs teach about time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from sglgate.errors import SglgateError
from sglgate.run import read_run, read_tests


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


def past_test_s(reports: Path) -> dict[str, float]:
    """Median seconds of every test in earlier runs, by its id."""
    seen: dict[str, list[float]] = {}
    for path in sorted(reports.glob("*/tests.jsonl")):
        try:
            for test, duration_s in read_tests(path.parent).items():
                seen.setdefault(test, []).append(duration_s)
        except SglgateError:
            continue
    return {test: median(durations) for test, durations in seen.items()}


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
