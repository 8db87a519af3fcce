"""``sglgate report``: the page of a run, rebuilt from its evidence, or the run in another format on stdout."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass

EXAMPLE = """examples:
  sglgate report reports/20260101-120000-cpu-1a2b
  sglgate report reports/20260101-120000-cpu-1a2b --format md >> "$GITHUB_STEP_SUMMARY"
  sglgate report reports/20260101-120000-cpu-1a2b --format prometheus | curl --data-binary @- \\
      http://127.0.0.1:9091/metrics/job/sglgate
  sglgate report reports/20260101-120000-cpu-1a2b --format junit > junit.xml    # of a run that was killed"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "report",
        help="rebuild a run's page from its evidence, or print the run as Markdown, OpenMetrics or JUnit",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="a run's folder")
    parser.add_argument(
        "--format", choices=["html", "md", "prometheus", "junit"], default="html", help="other than html: to stdout"
    )
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write ``index.html``, or print another format; 0 if the finished run is green, 1 if not, 2 if it is no run."""
    from sglgate.errors import ExitCode
    from sglgate.evidence import Verdict
    from sglgate.report import build_board, junit_xml, markdown_summary, openmetrics, summary_lines, write_html
    from sglgate.report.board import run_verdict
    from sglgate.run import read_evidence, read_run

    info, evidence = read_run(args.folder), read_evidence(args.folder)
    board = build_board(evidence)
    verdict = run_verdict(info, board)
    exit_code = int(ExitCode.GREEN if verdict is Verdict.PASS else ExitCode.RED)
    formats = {"md": markdown_summary, "prometheus": openmetrics, "junit": junit_xml}
    if (render := formats.get(args.format)) is not None:
        print(render(info, evidence), end="")
        return exit_code
    page = write_html(args.folder)
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
    return exit_code
