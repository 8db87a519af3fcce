"""``sglgate signoff``: go, no-go or not enough evidence for a release, as a dossier that people sign."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

EXAMPLE = """examples:
  sglgate signoff --from reports/RUN_OF_0.5.9 --to reports/RUN_OF_0.5.23
  sglgate signoff --from A --to B --accept 3f2a1c --who "A. Person" --why "the draft's KV is paid for now" """


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "signoff",
        help="may this release go onto this machine?",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--from", dest="old", type=Path, required=True, metavar="RUN", help="what serves today")
    parser.add_argument("--to", dest="new", type=Path, required=True, metavar="RUN", help="what may replace it")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="the dossier (default: beside the second run)")
    parser.add_argument("--accept", metavar="ID", help="accept one item of the dossier; needs --who and --why")
    parser.add_argument("--who", default="", help="who accepts it")
    parser.add_argument("--why", default="", help="why, one sentence")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the dossier; 0 for GO, 1 for the other two."""
    from sglgate.naming import file_name
    from sglgate.signoff import Decision, accept, build, kept_acceptances, read_side
    from sglgate.signoff.dossier import DOSSIER
    from sglgate.signoff.render import html, markdown
    from sglgate.stack import write_atomically

    old, new = read_side(args.old), read_side(args.new)
    folder: Path = args.out or args.new.parent / file_name(f"signoff-{old.info.name}-{new.info.name}")
    accepted = kept_acceptances(folder, old, new)
    dossier = build(old, new, accepted)
    if args.accept is not None:
        accepted[args.accept] = accept(dossier, args.accept, who=args.who, why=args.why)
        dossier = build(old, new, accepted)
    for name, text in (
        ("dossier.md", markdown(dossier)),
        ("index.html", html(dossier)),
        (DOSSIER, json.dumps(dossier.to_json(), indent=1) + "\n"),
    ):
        write_atomically(folder / name, text)
    print(json.dumps(dossier.to_json()) if args.json else f"{markdown(dossier)}\ndossier: {folder / 'index.html'}")
    return 0 if dossier.decision is Decision.GO else 1
