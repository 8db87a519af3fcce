"""``sglgate compare``: two runs side by side, on the terminal."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

EXAMPLE = "example: sglgate compare reports/20260101-120000-cpu-1a2b reports/20260102-120000-cpu-3c4d"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("compare", help="two runs side by side", epilog=EXAMPLE)
    parser.add_argument("old", type=Path, metavar="A", help="a run's folder")
    parser.add_argument("new", type=Path, metavar="B", help="the run that may replace it")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0 if nothing is worse or missing, 1 if something is; writes nothing."""
    from sglgate.signoff import Decision, build, read_side
    from sglgate.signoff.render import markdown

    dossier = build(read_side(args.old), read_side(args.new))
    print(json.dumps(dossier.to_json()) if args.json else markdown(dossier), end="" if not args.json else "\n")
    return 0 if dossier.decision is Decision.GO else 1
