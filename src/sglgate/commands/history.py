"""``sglgate history``: the store of all runs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sglgate.store import Filter, ResultRow

EXAMPLE = """examples:
  sglgate history import reports/20260101-120000-cpu-1a2b
  sglgate history list --since 2026-01-01
  sglgate history gates --verdict FAIL --candidate smollm2
  sglgate history trend --candidate smollm2 --gate launch/as_declared"""


def add_store_option(parser: argparse.ArgumentParser) -> None:
    """``--store``, the same everywhere."""
    parser.add_argument(
        "--store", help="file, or postgresql+psycopg://host/database (default: SGLGATE_STORE, reports/history.sqlite)"
    )


def store_of(args: argparse.Namespace) -> str:
    """The store that a command was asked for."""
    from sglgate.store import default_store

    return args.store or default_store(Path("reports"))


def add_filter_options(parser: argparse.ArgumentParser, *names: str) -> None:
    """The options that :func:`filter_of` reads."""
    texts = {
        "candidate": "only this candidate",
        "suite": "only this suite",
        "gate": "only this gate: GATE or SUITE/GATE",
        "metric": "only this metric",
        "verdict": "PASS, FAIL, INCONCLUSIVE, NOT_EXERCISED or UNFIT",
        "stack": "only this stack: fingerprint or SGLang version",
        "profile": "only this profile",
        "since": "only runs started on or after this date, UTC",
    }
    for name in names or texts:
        parser.add_argument(f"--{name}", help=texts[name])


def filter_of(args: argparse.Namespace) -> Filter:
    """What the options of :func:`add_filter_options` ask for."""
    from sglgate.store import Filter

    return Filter(**{name: getattr(args, name, None) for name in Filter.__dataclass_fields__})


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its actions."""
    parser = subparsers.add_parser(
        "history", help="what past runs measured", epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, run, text in (
        ("list", _list, "runs, newest first"),
        ("gates", _gates, "gate results, newest run first"),
        ("board", _board, "the last result of every gate"),
        ("trend", _trend, "one or more metrics over time, with changes of level as a notice"),
    ):
        action = actions.add_parser(name, help=text)
        add_filter_options(action)
        if name in ("list", "gates"):
            action.add_argument("--limit", type=int, default=50, help="at most so many rows (50)")
        _finish(action, run)
    action = actions.add_parser("import", help="take runs in; one that is there already is left alone")
    action.add_argument("folder", type=Path, nargs="+", help="a run's folder")
    _finish(action, _import)


def _finish(action: argparse.ArgumentParser, run: Any) -> None:
    add_store_option(action)
    action.add_argument("--json", action="store_true", help="machine-readable")
    action.set_defaults(run=run)


def _import(args: argparse.Namespace) -> int:
    from sglgate.store import Store, import_run

    with Store(store_of(args), create=True) as store:
        done = {str(folder): import_run(store, folder) for folder in args.folder}
    print(json.dumps(done) if args.json else "\n".join(f"{folder}: {outcome}" for folder, outcome in done.items()))
    return 0


def _list(args: argparse.Namespace) -> int:
    from sglgate.store import Store, runs

    with Store(store_of(args)) as store:
        found = runs(store, filter_of(args), args.limit)
    if args.json:
        print(json.dumps([asdict(row) for row in found]))
        return 0
    rows = [
        (r.name, r.profile, r.sglang or "no stack", r.verdict or "nothing judged", f"{r.green} of {r.total} green",
         "" if r.finished else "cut")
        for r in found
    ]  # fmt: skip
    print(_table(("run", "profile", "sglang", "verdict", "gates", ""), rows))
    return 0


def _gates(args: argparse.Namespace) -> int:
    from sglgate.store import Store, results

    with Store(store_of(args)) as store:
        found = results(store, filter_of(args), args.limit)
    _print_results(args, found)
    return 0


def _board(args: argparse.Namespace) -> int:
    from sglgate.store import Store, board

    with Store(store_of(args)) as store:
        found = board(store, filter_of(args))
    _print_results(args, found)
    return 0


def _trend(args: argparse.Namespace) -> int:
    """Always 0: a change of level is a notice, no verdict."""
    from sglgate.store import Store, trend
    from sglgate.store.changes import change_points

    with Store(store_of(args)) as store:
        series = trend(store, filter_of(args))
    found = [(rows, change_points([float(row.value or 0) for row in rows])) for rows in series.values()]
    if args.json:
        fields = ("profile", "candidate", "suite", "gate", "metric", "unit")
        points = ("run", "started", "stack", "sglang", "verdict", "value", "low", "high")
        out = [
            {
                **{name: getattr(rows[0], name) for name in fields},
                "points": [{name: getattr(row, name) for name in points} for row in rows],
                "changes": [{"run": rows[c.index].run, **asdict(c), "ratio": c.ratio} for c in changes],
            }
            for rows, changes in found
        ]
        print(json.dumps(out))
        return 0
    for rows, changes in found:
        first = rows[0]
        print(f"{_safe(first.candidate)} {_safe(first.suite)}/{_safe(first.gate)}: {_safe(first.metric)}")
        marks = {change.index: change for change in changes}
        for index, row in enumerate(rows):
            if (change := marks.get(index)) is not None:
                ratio = f", {change.ratio - 1:+.1%}" if change.ratio is not None else ""
                old, new = rows[index - 1].sglang, row.sglang
                stack = f"; sglang {old} -> {new} here" if old != new else ""
                print(f"  -- level {change.before:.6g} -> {change.after:.6g}{ratio} (p = {change.p:.3f}){stack}")
            print(f"  {row.run:<32} {row.sglang or 'no stack':<10} {row.verdict:<13} {_value(row)}")
    return 0


def _print_results(args: argparse.Namespace, found: Sequence[ResultRow]) -> None:
    if args.json:
        print(json.dumps([asdict(row) for row in found]))
        return
    rows = [
        (r.run, r.candidate or "(the machine)", f"{r.suite}/{r.gate}", r.verdict, f"{r.metric}: {_value(r)}")
        for r in found
    ]
    print(_table(("run", "candidate", "gate", "verdict", "measured"), rows))


def _value(row: ResultRow) -> str:
    return f"{row.value:.6g} {row.unit}".rstrip() if row.value is not None else "no number"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return "nothing found"
    lines = [[_safe(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _safe(text: str) -> str:
    """Nothing that a terminal would obey, and no name that fills the screen."""
    shown = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
    return shown if len(shown) <= 80 else f"{shown[:79]}…"
