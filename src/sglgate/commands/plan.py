"""``sglgate plan``: what a run would launch; every candidate is held against the stack's own parser and files."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sglgate.config import Candidate, Profile
    from sglgate.plan import PlannedCandidate

EXAMPLE = "example: sglgate plan --profile cpu --stack .stacks/cpu"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("plan", help="what a run would launch, how long it takes", epilog=EXAMPLE)
    parser.add_argument("--profile", required=True, help="name of a profile")
    parser.add_argument("--root", type=Path, default=Path(), help="the checkout of sglgate (default: here)")
    parser.add_argument("--candidates", type=Path, help="folder of candidates (default: fixtures/candidates/PROFILE)")
    parser.add_argument("--candidate", action="append", default=[], metavar="NAME", help="only this one; repeatable")
    parser.add_argument("--stack", metavar="PYTHON", help="the interpreter with the sglang to judge")
    parser.add_argument("--against", metavar="PYTHON", help="the interpreter with the sglang that serves now")
    parser.add_argument("--no-stack", action="store_true", help="do not check the candidates against a stack")
    parser.add_argument("-n", type=int, default=1, metavar="N", help="workers side by side, as pytest's -n")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the plan; 0, or 2 where a candidate cannot be launched as it is written."""
    from sglgate.commands._models import models_here
    from sglgate.config import load_candidates, load_profiles
    from sglgate.config.candidate_files import fitting, select
    from sglgate.errors import ExitCode, MisuseError, nearest
    from sglgate.needs import fewest_launches, in_order
    from sglgate.plan import plan_run
    from sglgate.stack import find_stack, read_stack
    from sglgate.stack_fit import check_candidates

    profiles = load_profiles(args.root / "fixtures" / "profiles")
    if args.profile not in profiles:
        near = nearest(args.profile, profiles)
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(profiles)}"
        raise MisuseError("no such profile", key="--profile", value=args.profile, expected=hint)
    profile = profiles[args.profile]
    folder = args.candidates or args.root / "fixtures" / "candidates" / profile.candidates_folder
    candidates, stack = select(fitting(load_candidates(folder, profile), profile), args.candidate), None
    left_out: dict[str, str] = {}
    if not args.no_stack:
        stack = read_stack(find_stack(args.stack, args.root))
        candidates, left_out = check_candidates(stack, candidates, profile.environment, args.candidate)
    against = read_stack(find_stack(args.against, args.root, "--against")) if args.against else None
    two = against is not None
    models = models_here(candidates, args.root)
    planned = plan_run(profile, candidates, args.root / "reports", models, two_releases=two)
    fewest = fewest_launches(in_order(candidates, two_releases=two))
    if args.json:
        checked = {"stack": stack.digest, "sglang": stack.sglang} if stack else None
        rows = [dataclasses.asdict(item) | {"expected_s": item.expected_s} for item in planned]
        print(json.dumps({"checked_against": checked, "left_out": left_out, "fewest": fewest, "candidates": rows}))
        return int(ExitCode.GREEN)
    for line in _text(profile, candidates, planned, fewest, args.n):
        print(line)
    for name, why in left_out.items():
        print(f"left out: {name}, {why}")
    checked_text = f"accepted by SGLang {stack.sglang}" if stack else "NOT checked against a stack"
    print(f"arguments and environment names {checked_text}")
    if against:
        print(f"speed is held against SGLang {against.sglang}, launch by launch in turn: at least so many launches")
    return int(ExitCode.GREEN)


def _text(
    profile: Profile, candidates: Sequence[Candidate], planned: Sequence[PlannedCandidate], fewest: int, workers: int
) -> list[str]:
    from sglgate.plan import side_by_side_s, slots_of

    what = "GPU" if profile.needs_gpu else "core"
    width = max(len(item.candidate) for item in planned)
    lines = []
    for candidate, item in zip(candidates, planned, strict=True):
        known = f"{item.ready_s:.0f} s ({item.basis})" if item.ready_s is not None else item.basis
        note = f"  must fail: {item.expected_failure}" if item.expected_failure else ""
        count = f"{item.launches} launch{'' if item.launches == 1 else 'es'}"
        leased = f"{item.slots} {what}{'' if item.slots == 1 else 's'}"
        lines.append(f"{item.candidate:<{width}}  {leased}, {count}, to ready {known}{note}")
        lines.append(f"{'':<{width}}  {candidate.reason}")
    launches = sum(item.launches for item in planned)
    expected = [item.expected_s for item in planned]
    unknown = sum(one is None for one in expected)
    total_s = sum(one for one in expected if one is not None)
    leased_s = sum(item.slots * item.expected_s for item in planned if item.expected_s is not None)
    at_most_s = sum(item.launches * item.deadline_s for item in planned)
    lines += [
        "",
        f"{launches} launches; the fewest that this evidence can do with: {fewest}"
        " (speed gates: to their first look; they launch more until their rule decides)",
        _known_hours(total_s, leased_s, what, unknown, len(planned))
        + f"; starts take at most {_hours(at_most_s)} by their deadlines",
    ]
    if workers > 1:
        slots = slots_of(profile)
        lines.append(f"{_hours(side_by_side_s(planned, slots, workers))} with -n {workers} on {slots} {what}s")
    return lines


def _known_hours(total_s: float, leased_s: float, what: str, unknown: int, count: int) -> str:
    if unknown == count:
        return "hours unknown: none of these was seen on this machine, and no model is here"
    missing = f", and {unknown} of {count} unknown" if unknown else ""
    return f"{_hours(total_s)} one after the other{missing}; {leased_s / 3600:.1f} {what} hours leased"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"
