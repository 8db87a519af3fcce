"""``sglgate diagnose``: a server log in, its cause out."""

from __future__ import annotations

import argparse
from typing import Any

EXAMPLE = """\
examples:
  sglgate diagnose server.log
  docker logs sgl-1 2>&1 | sglgate diagnose - --json
  sglgate diagnose run/*/server.log --json --context exit.json

The context is JSON ({"exit_code": -9, "timed_out": true, "alive": true, "kv_bytes_per_token": 70272,
"dmesg": "...", "gpu_processes": [{"pid": 1, "gib": 2.5, "name": "python"}]}, every key optional) or any
text (dmesg, nvidia-smi). exit codes: 0 every log is healthy, 1 a failure was found (or the log does not
show that the server came up), 2 misuse
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "diagnose",
        help="name the cause of a failed launch from its log",
        description="Name the cause of a failed launch from its log, with evidence and remedy.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("logs", nargs="+", metavar="LOG", help="a server log; - is standard input")
    parser.add_argument("--json", action="store_true", help="one JSON object a line, one line a log, in order")
    parser.add_argument("--context", metavar="FILE", help="what is known beside the log")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Diagnose every log; nothing is printed before all of them could be opened."""
    import json
    from pathlib import Path

    from sglgate.diagnosis import Context, diagnose_file, read_context
    from sglgate.errors import ExitCode, MisuseError

    for name in args.logs:
        if name != "-" and not Path(name).is_file():
            raise MisuseError("no such log", file=name, expected="a file, or - for standard input")
    if args.logs.count("-") > 1:
        raise MisuseError("standard input can be read only once", key="LOG", value="-")
    context = read_context(Path(args.context)) if args.context else Context()
    healthy = True
    for name in args.logs:
        answer = diagnose_file(name, context)
        healthy = healthy and answer.healthy
        if args.json:
            print(json.dumps(answer.to_json(), ensure_ascii=False, allow_nan=False), flush=True)
        else:
            _print_text(answer)
    return int(ExitCode.GREEN if healthy else ExitCode.RED)


def _print_text(answer: Any) -> None:
    print("\n".join([answer.file, *("  " + line for line in answer.summary_lines())]), flush=True)
