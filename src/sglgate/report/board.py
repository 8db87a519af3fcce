"""The verdict board: candidates down, gates across, one verdict a cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sglgate.evidence import Evidence, Verdict
from sglgate.run import RunInfo

#: The worst of several verdicts is the cell's: a failure is worse than not knowing.
_SEVERITY = {
    Verdict.PASS: 0,
    Verdict.INCONCLUSIVE: 1,
    Verdict.NOT_EXERCISED: 2,
    Verdict.UNFIT: 3,
    Verdict.FAIL: 4,
}
#: The row of gates that judge the machine and no candidate.
MACHINE = ""


@dataclass(frozen=True)
class Cell:
    """All evidence of one gate for one candidate."""

    evidence: tuple[Evidence, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of it."""
        return worst(e.verdict for e in self.evidence)

    @property
    def telling(self) -> Evidence:
        """The record that gave the cell its verdict."""
        return next(e for e in self.evidence if e.verdict is self.verdict)


@dataclass(frozen=True)
class Board:
    """``cells[candidate][(suite, gate)]``; gates and candidates in the order in which they were judged."""

    candidates: tuple[str, ...]
    gates: tuple[tuple[str, str], ...]
    cells: dict[str, dict[tuple[str, str], Cell]] = field(default_factory=dict)

    @property
    def suites(self) -> list[tuple[str, int]]:
        """Each suite with the number of its gates, as the heading spans them."""
        counts: dict[str, int] = {}
        for suite, _ in self.gates:
            counts[suite] = counts.get(suite, 0) + 1
        return list(counts.items())

    @property
    def tables(self) -> list[Board]:
        """The machine's gates and the candidates' apart, each with the gates that it has; none that is empty."""
        found = []
        for rows in ([c for c in self.candidates if c == MACHINE], [c for c in self.candidates if c != MACHINE]):
            gates = tuple(gate for gate in self.gates if any(gate in self.cells[row] for row in rows))
            if gates:
                found.append(Board(tuple(rows), gates, {row: self.cells[row] for row in rows}))
        return found

    def reds(self) -> list[tuple[str, tuple[str, str], Cell]]:
        """Every cell that is not green."""
        return [
            (candidate, gate, cell)
            for candidate in self.candidates
            for gate, cell in self.cells[candidate].items()
            if cell.verdict is not Verdict.PASS
        ]

    @property
    def verdict(self) -> Verdict | None:
        """The run's: the worst cell; None where nothing was judged, which is not green either."""
        cells = [cell.verdict for row in self.cells.values() for cell in row.values()]
        return worst(cells) if cells else None


def run_verdict(info: RunInfo, board: Board) -> Verdict | None:
    """The run's verdict; None where it did not end, judged nothing, or was a replay, which judges no machine.

    An exit code that is not 0 is never green.
    """
    if info.finished is None or board.verdict is None or info.replay:
        return None
    return Verdict.FAIL if board.verdict is Verdict.PASS and info.exit_code != 0 else board.verdict


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The most severe of at least one verdict."""
    return max(verdicts, key=_SEVERITY.__getitem__)


def build_board(evidence: Sequence[Evidence]) -> Board:
    """Arrange a run's evidence; suites stay together even where candidates alternate."""
    candidates = tuple(dict.fromkeys(e.candidate for e in evidence))
    order = list(dict.fromkeys(e.suite for e in evidence))
    gates = tuple(sorted(dict.fromkeys((e.suite, e.gate) for e in evidence), key=lambda gate: order.index(gate[0])))
    cells: dict[str, dict[tuple[str, str], Cell]] = {candidate: {} for candidate in candidates}
    for e in evidence:
        key = (e.suite, e.gate)
        before = cells[e.candidate].get(key)
        cells[e.candidate][key] = Cell((*before.evidence, e) if before else (e,))
    return Board(candidates, gates, cells)
