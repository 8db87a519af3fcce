"""Runs suites/eagle3 by pytest on one candidate, as a person would, and reads the evidence that it left."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from sglgate.evidence import Evidence, Verdict
from sglgate.run import read_evidence

ROOT = Path(__file__).parents[2]


def judge(
    folder: Path,
    stack: Path,
    *options: str,
    timeout_s: float = 180,
    environment: Mapping[str, str] | None = None,
) -> list[Evidence]:
    """All evidence of ``-m "cpu and eagle3"`` on the candidates in ``folder``; its exit code must agree with it."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "cpu and eagle3", *options]
    # One word each: a path that stands alone would have a say in what pytest takes for its root.
    command += [f"--candidates={folder}", f"--reports={folder / 'reports'}", f"--stack={stack}"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout_s)
    files = list((folder / "reports").glob("*/evidence.jsonl"))
    assert files, done.stdout + done.stderr
    evidence = read_evidence(files[0].parent)
    assert done.returncode == int(any(e.verdict is not Verdict.PASS for e in evidence)), done.stdout
    return evidence


def red(evidence: list[Evidence]) -> dict[str, str]:
    """Verdict and reason of what is not green, by gate."""
    return {e.gate: f"{e.verdict}: {e.reason}" for e in evidence if e.verdict is not Verdict.PASS}
