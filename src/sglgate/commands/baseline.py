"""``sglgate baseline``: what a metric is held against, pinned by a person with a reason."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from sglgate.commands.history import add_filter_options, add_store_option, filter_of, store_of

if TYPE_CHECKING:
    from sglgate.store import Pin

EXAMPLE = """example:
  sglgate baseline pin 20260101-120000-cpu-1a2b --candidate smollm2 --gate kv/holds_what_is_needed \\
      --who "A. Person" --why "first release on this node"
  sglgate baseline show --profile cpu --candidate smollm2 --gate kv/holds_what_is_needed --metric "KV pool\""""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its actions."""
    parser = subparsers.add_parser(
        "baseline",
        help="pin, list and show baselines",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    pin = actions.add_parser("pin", help="make what a run measured the baseline; nothing else ever moves one")
    pin.add_argument("name", metavar="RUN", help="a run in the store")
    add_filter_options(pin, "candidate", "gate", "metric")
    pin.add_argument("--who", required=True, help="who decides this")
    pin.add_argument("--why", required=True, help="the reason, one sentence")
    pin.set_defaults(run=_pin)

    shown = actions.add_parser("list", help="the baselines in force")
    add_filter_options(shown, "profile", "candidate")
    shown.set_defaults(run=_list)

    show = actions.add_parser("show", help="one baseline with everything that it replaced; red where there is none")
    for name in ("profile", "candidate", "gate", "metric"):
        show.add_argument(f"--{name}", required=True, help="SUITE/GATE" if name == "gate" else f"the {name}")
    show.set_defaults(run=_show)
    for action in (pin, shown, show):
        add_store_option(action)
        action.add_argument("--json", action="store_true", help="machine-readable")


def _pin(args: argparse.Namespace) -> int:
    from sglgate.store import Store, pin

    with Store(store_of(args)) as store:
        _print(args, pin(store, args.name, filter_of(args), who=args.who, why=args.why))
    return 0


def _list(args: argparse.Namespace) -> int:
    from sglgate.store import Store, pins

    with Store(store_of(args)) as store:
        _print(args, pins(store, args.profile, args.candidate))
    return 0


def _show(args: argparse.Namespace) -> int:
    from sglgate.errors import MisuseError
    from sglgate.store import Store, story

    suite, slash, gate = args.gate.partition("/")
    if not slash:
        raise MisuseError("not a gate", key="--gate", value=args.gate, expected="SUITE/GATE")
    with Store(store_of(args)) as store:
        found = story(store, profile=args.profile, candidate=args.candidate, suite=suite, gate=gate, metric=args.metric)
    _print(args, found)
    return 0


def _print(args: argparse.Namespace, found: Sequence[Pin]) -> None:
    if args.json:
        print(json.dumps([asdict(item) for item in found]))
        return
    for item in found:
        before = f"{item.before:.6g} -> " if item.before is not None else ""
        print(f"{item.profile} {item.candidate} {item.suite}/{item.gate}: {item.metric}")
        print(f"  {before}{item.value:.6g} {item.unit}".rstrip() + f"  from {item.run}")
        print(f"  {item.at[:19]} {item.who}: {item.why}")
    if not found:
        print("no baseline is pinned")
