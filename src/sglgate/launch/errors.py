"""What a launch can end in.

SglgateError
└── LaunchError             the server did not come up: carries phase and diagnosis
    └── LeftoverError       something of a server still lives, so nothing more is launched
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sglgate.errors import SglgateError


class LaunchError(SglgateError):
    """A server did not come up.

    Args:
        problem: what was seen, one sentence.
        phase: the start phase in which it was seen.
        log: the server's log.
        diagnosis: what ``sglgate diagnose`` says of that log; None where there is no log to read.
        noticed_after_s: seconds from the log's fatal line to this error; None if there was no such line.
    """

    def __init__(
        self,
        problem: str,
        *,
        phase: str,
        log: Path | None = None,
        diagnosis: Any = None,
        noticed_after_s: float | None = None,
    ) -> None:
        self.problem, self.phase, self.log = problem, phase, log
        self.diagnosis, self.noticed_after_s = diagnosis, noticed_after_s
        lines = [f"launch failed in phase {phase}: {problem}"]
        if diagnosis is not None:
            lines += diagnosis.summary_lines()
        if log is not None:
            lines.append(f"log: {log}")
        super().__init__("\n".join(lines))


class LeftoverError(LaunchError):
    """A process or the memory of a server is still there: a launch on top of it would measure the wrong thing."""
