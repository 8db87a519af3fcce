"""``sglgate report``: the page of a run, rebuilt from its evidence."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

EXAMPLE = "example: sglgate report reports/20260101-120000-cpu-1a2b"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("report", help="rebuild a run's page from its evidence", epilog=EXAMPLE)
    parser.add_argument("folder", type=Path, help="a run's folder")
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write ``index.html``; 0 if every gate of the finished run is green, 1 if not, 2 if it is no run."""
    from sglgate.errors import ExitCode
    from sglgate.evidence import Verdict
    from sglgate.report import build_board, summary_lines, write_html
    from sglgate.report.board import run_verdict
    from sglgate.run import read_evidence, read_run

    info, evidence = read_run(args.folder), read_evidence(args.folder)
    page = write_html(args.folder)
    board = build_board(evidence)
    verdict = run_verdict(info, board)
    if args.json:
        cells = [
            {
                "candidate": candidate,
                "suite": suite,
                "gate": gate,
                "verdict": cell.verdict,
                "reason": cell.telling.reason,
            }
            for candidate in board.candidates
            for (suite, gate), cell in board.cells[candidate].items()
        ]
        print(json.dumps({"run": info.name, "finished": info.finished, "verdict": verdict, "gates": cells}))
    else:
        print("\n".join(summary_lines(info, evidence)))
        print(f"report: {page}")
    return int(ExitCode.GREEN if verdict is Verdict.PASS else ExitCode.RED)
