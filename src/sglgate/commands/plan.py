"""``sglgate plan``: what a run would launch; every candidate's arguments are held against the stack's own parser."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

EXAMPLE = "example: sglgate plan --profile cpu --stack .stacks/cpu"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("plan", help="what a run would launch, how long it takes", epilog=EXAMPLE)
    parser.add_argument("--profile", required=True, help="name of a profile")
    parser.add_argument("--root", type=Path, default=Path(), help="the checkout of sglgate (default: here)")
    parser.add_argument("--candidates", type=Path, help="folder of candidates (default: fixtures/candidates/PROFILE)")
    parser.add_argument("--candidate", action="append", default=[], metavar="NAME", help="only this one; repeatable")
    parser.add_argument("--stack", metavar="PYTHON", help="the interpreter with the sglang to judge")
    parser.add_argument("--no-stack", action="store_true", help="do not check arguments against a stack")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the plan; 0, or 2 where a candidate cannot be launched as it is written."""
    from sglgate.config import load_candidates, load_profiles
    from sglgate.config.candidate import fitting, select
    from sglgate.errors import ExitCode, MisuseError, nearest
    from sglgate.plan import plan_launches
    from sglgate.stack import check_arguments, find_stack, read_stack

    profiles = load_profiles(args.root / "fixtures" / "profiles")
    if args.profile not in profiles:
        near = nearest(args.profile, profiles)
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(profiles)}"
        raise MisuseError("no such profile", key="--profile", value=args.profile, expected=hint)
    profile = profiles[args.profile]
    folder = args.candidates or args.root / "fixtures" / "candidates" / profile.candidates_folder
    candidates = select(fitting(load_candidates(folder, profile), profile), args.candidate)
    stack = None
    if not args.no_stack:
        stack = read_stack(find_stack(args.stack, args.root))
        check_arguments(stack, candidates, profile.environment)
    launches = plan_launches(profile, candidates, args.root / "reports")
    if args.json:
        checked = {"stack": stack.digest, "sglang": stack.sglang} if stack else None
        print(json.dumps({"checked_against": checked, "launches": [dataclasses.asdict(item) for item in launches]}))
        return int(ExitCode.GREEN)

    width = max(len(item.candidate) for item in launches)
    for candidate, item in zip(candidates, launches, strict=True):
        known = f"{item.ready_s:.0f} s (median of {item.seen})" if item.ready_s is not None else "never seen"
        note = f"  must fail: {item.expected_failure}" if item.expected_failure else ""
        count = f"{item.launches} launch{'es' if item.launches > 1 else ''}"
        print(f"{item.candidate:<{width}}  tp {item.tensor_parallel}, {count}, to ready {known}{note}")
        print(f"{'':<{width}}  {candidate.reason}")
    expected_s = sum(item.launches * item.ready_s for item in launches if item.ready_s is not None)
    unknown = sum(item.ready_s is None for item in launches)
    at_most_s = sum(item.launches * item.deadline_s for item in launches)
    checked_text = f"arguments accepted by SGLang {stack.sglang}" if stack else "arguments NOT checked against a stack"
    seen_text = f"{expected_s / 60:.1f} min as seen before" + (f", {unknown} never seen" if unknown else "")
    total = sum(item.launches for item in launches)
    print(f"\n{total} launches, {seen_text}, at most {at_most_s / 60:.0f} min by deadlines; {checked_text}")
    return int(ExitCode.GREEN)
