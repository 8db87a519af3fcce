"""The first hour on a new node, step by step: which tests each step is, and what stops it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from sglgate.config import Candidate, Profile
from sglgate.errors import MisuseError
from sglgate.evidence import Verdict
from sglgate.run import read_evidence

#: Bringup asks whether a path works at all. How fast it is, and what it does to a model's answers, is the lane's.
_WORKS: Final = "not no_slower and not says_the_same"


@dataclass(frozen=True)
class Step:
    """One call of pytest: the suites of it, and for whom."""

    name: str
    suites: tuple[str, ...]
    candidates: tuple[str, ...] = ()
    keyword: str = ""

    def arguments(self, profile: Profile) -> list[str]:
        """What pytest gets."""
        chosen = [argument for name in self.candidates for argument in ("--candidate", name)]
        keyword = ["-k", self.keyword] if self.keyword else []
        return ["-m", f"{profile.name} and ({' or '.join(self.suites)})", *keyword, *chosen]


@dataclass(frozen=True)
class Outcome:
    """How a step ended; ``reasons`` of every gate that was not green."""

    step: Step
    exit_code: int
    folder: Path | None
    reasons: tuple[str, ...]


def steps_of(candidates: Sequence[Candidate]) -> list[Step]:
    """Preflight; the plainest server; then every declared all-reduce path, fewest ranks first.

    Raises:
        MisuseError: no candidate can be launched plainly.
    """
    launched = [c for c in candidates if c.expect.failure is None and (c.suites is None or "launch" in c.suites)]
    if not launched:
        raise MisuseError("no candidate is judged by the launch suite", key="--candidates")
    plainest = min(launched, key=lambda c: (c.tensor_parallel, len(c.arguments) + len(c.environment), c.name))
    steps = [Step("preflight", ("preflight",)), Step(f"smallest model: {plainest.name}", ("launch",), (plainest.name,))]
    paths = [c for c in candidates if c.expect.allreduce is not None and c.expect.failure is None]
    for ranks in sorted({c.tensor_parallel for c in paths if c.tensor_parallel > 1}):
        names = tuple(c.name for c in paths if c.tensor_parallel == ranks)
        steps.append(Step(f"all-reduce paths at TP{ranks}", ("launch", "allreduce"), names, _WORKS))
    return steps


def run_step(
    step: Step, profile: Profile, root: Path, reports: Path, options: Sequence[str], output: IO[str] | None = None
) -> Outcome:
    """Run one step in a pytest of its own; it prints to ``output``, or where this process does."""
    before = set(reports.glob("*/evidence.jsonl"))
    # With "=": an existing folder that stands alone would be taken for tests to run.
    argv = [sys.executable, "-m", "pytest", "-q", *step.arguments(profile), f"--reports={reports}", *options]
    code = subprocess.run(argv, cwd=root, stdout=output, check=False).returncode
    new = sorted(set(reports.glob("*/evidence.jsonl")) - before)
    if not new:
        return Outcome(step, code or 1, None, (f"pytest wrote no evidence (exit code {code})",))
    folder = new[-1].parent
    reds = [e for e in read_evidence(folder) if e.verdict is not Verdict.PASS]
    reasons = tuple(f"{e.candidate or 'the machine'} {e.suite}/{e.gate}: {e.verdict}: {e.reason}" for e in reds)
    return Outcome(step, code, folder, reasons)
