"""One side of a comparison: a run's folder, read once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sglgate.errors import MisuseError
from sglgate.evidence import Evidence
from sglgate.kv.observed import Observed, observe, read_log
from sglgate.report.board import Board, build_board
from sglgate.run import RunInfo, read_evidence, read_run

#: (candidate, suite, gate, metric): what makes two records of two runs one comparison.
Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Side:
    """A run as the sign-off sees it."""

    folder: Path
    info: RunInfo
    evidence: tuple[Evidence, ...]

    @cached_property
    def board(self) -> Board:
        """Verdicts by candidate and gate."""
        return build_board(self.evidence)

    @cached_property
    def metrics(self) -> dict[Key, Evidence]:
        """The last record of every metric: a gate that looked twice decided by the last look."""
        return {(e.candidate, e.suite, e.gate, e.metric): e for e in self.evidence}

    @property
    def sglang(self) -> str:
        """SGLang's version, empty where no stack was read."""
        return str(self.info.stack.get("packages", {}).get("sglang", ""))

    def launch(self, candidate: str) -> dict[str, Any] | None:
        """The first launch of a candidate: the one that all its gates share."""
        found = (one for one in self.info.launches if candidate in (one["candidate"], *one.get("also", ())))
        return next(found, None)

    def start(self, candidate: str) -> Observed | None:
        """What the log of that launch says of memory; None where the log is not in the folder any more."""
        launch = self.launch(candidate)
        if launch is None:
            return None
        try:
            return observe(read_log(self.folder / launch["log"]))
        except MisuseError:
            return None


def read_side(folder: Path) -> Side:
    """Read a run.

    Raises:
        MisuseError: not a run's folder, or a replay.
    """
    info = read_run(folder)
    if info.replay:
        raise MisuseError("a replay, which measured nothing", file=folder, expected="a run on a machine")
    return Side(folder, info, tuple(read_evidence(folder)))
