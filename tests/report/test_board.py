"""The board: the worst record is the cell's verdict, the worst cell the run's."""

from __future__ import annotations

from sglgate.evidence import Verdict
from sglgate.report import build_board, summary_lines
from sglgate.run import RunInfo, now
from tests.report.pages import evidence


def test_the_worst_record_is_the_cells_verdict_and_the_worst_cell_the_runs() -> None:
    board = build_board([evidence(), evidence(verdict="UNFIT"), evidence(verdict="INCONCLUSIVE"), evidence(gate="h")])

    assert board.cells["c"][("kv", "g")].verdict is Verdict.UNFIT
    assert board.cells["c"][("kv", "h")].verdict is Verdict.PASS
    assert board.verdict is Verdict.UNFIT
    assert [gate for _, gate, _ in board.reds()] == [("kv", "g")]


def test_nothing_judged_is_not_green() -> None:
    info = RunInfo(name="r", profile="cpu", sglgate="0", started=now())

    assert build_board([]).verdict is None
    assert summary_lines(info, [])[-1] == "nothing was judged: not green"
