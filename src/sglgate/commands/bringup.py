"""``sglgate bringup``: the first hour on a new node, from preflight to the widest path, up to the first red."""

from __future__ import annotations

import argparse
from pathlib import Path

EPILOG = """\
examples:
  sglgate bringup --profile blackwell --stack /opt/sglang/bin/python --facts node-a.json
  sglgate bringup --profile cpu --facts /tmp/this-machine.json

Every step is a pytest run with its own folder below --reports. The node's answers are recorded beside them, to be
replayed (pytest --replay), and its facts are written for the profile to pin (preflight.node_facts).
Exit codes: 0 every step is green, 1 a step is red, 2 misuse, 3 the machine is taken or unfit.
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "bringup",
        help="the first hour on a new node",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--profile", required=True, help="name of a profile")
    parser.add_argument("--facts", type=Path, required=True, metavar="FILE", help="where the node's facts are written")
    parser.add_argument("--stack", metavar="PYTHON", help="the interpreter with the sglang to judge")
    parser.add_argument("--root", type=Path, default=Path(), help="the checkout of sglgate (default: here)")
    parser.add_argument("--candidates", type=Path, help="folder of candidates (default: those of the profile)")
    parser.add_argument("--reports", type=Path, help="where runs are written (default: reports)")
    parser.add_argument("--record", type=Path, metavar="FOLDER", help="the recording (default: reports/node-TIME)")
    parser.add_argument("--wait-for-node", type=float, default=0, metavar="SECONDS", help="wait for another run to end")
    parser.add_argument("--json", action="store_true", help="machine-readable; pytest's output goes to stderr")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Step by step."""
    import dataclasses
    import json
    import sys
    from datetime import UTC, datetime

    from sglgate.bringup import Outcome, run_step, steps_of
    from sglgate.config import load_candidates, load_profiles
    from sglgate.config.candidate_files import fitting
    from sglgate.errors import ExitCode, MisuseError, nearest
    from sglgate.node import Replay
    from sglgate.preflight import ask
    from sglgate.preflight.facts import facts_of
    from sglgate.run import now
    from sglgate.stack import find_stack, read_stack, write_atomically

    root = args.root.resolve()
    profiles = load_profiles(root / "fixtures" / "profiles")
    if args.profile not in profiles:
        near = nearest(args.profile, profiles)
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(profiles)}"
        raise MisuseError("no such profile", key="--profile", value=args.profile, expected=hint)
    profile = profiles[args.profile]
    folder = args.candidates or root / "fixtures" / "candidates" / profile.candidates_folder
    stack = read_stack(find_stack(args.stack, root))
    # Named one by one below: pytest takes one for another release for a mistake then.
    known = [c for c in fitting(load_candidates(folder, profile), profile) if c.fits(stack.sglang)]
    steps = steps_of(known)
    reports = (args.reports or root / "reports").resolve()
    record = (args.record or reports / f"node-{datetime.now(UTC):%Y%m%d-%H%M%S}").resolve()
    options = [f"--candidates={folder.resolve()}", f"--wait-for-node={args.wait_for_node:g}"]
    options.append(f"--stack={stack.python}")

    def say(text: str) -> None:
        print(text, file=sys.stderr if args.json else sys.stdout, flush=True)

    outcomes: list[Outcome] = []
    for number, step in enumerate(steps, 1):
        say(f"bringup {number}/{len(steps)}: {step.name}")
        own = [f"--record={record}"] if step.name == "preflight" else []
        outcomes.append(run_step(step, profile, root, reports, [*options, *own], sys.stderr if args.json else None))
        if outcomes[-1].exit_code != 0:
            break
        if step.name == "preflight":
            node = Replay(record)
            nvml = node.nvml() if profile.needs_gpu else None
            peers = ask.peers(node, profile) if profile.machine.gpus > 1 else None
            facts = facts_of(node, profile, now(), nvml, ask.kernels(node, profile), peers)
            write_atomically(args.facts, json.dumps(dataclasses.asdict(facts), indent=1) + "\n")
            say(f"bringup: facts of this node in {args.facts}; pin them with preflight.node_facts in the profile")
    last = outcomes[-1]
    if args.json:
        shown = [
            dataclasses.asdict(o) | {"step": o.step.name, "folder": str(o.folder) if o.folder else None}
            for o in outcomes
        ]
        print(json.dumps({"steps": shown, "planned": [s.name for s in steps], "recording": str(record)}))
    for reason in last.reasons:
        say(f"  {reason}")
    done = "every step is green" if last.exit_code == 0 else f"stopped at {last.step.name!r}"
    say(f"bringup: {done}; {len(outcomes)} of {len(steps)} steps done")
    return last.exit_code if last.exit_code in set(ExitCode) else int(ExitCode.RED)
