"""``sglgate tune eagle3``: the best number of steps, branches and draft tokens, with few launches."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sglgate.config import Candidate
    from sglgate.eagle3.tune import Surface

EPILOG = """\
example:
  sglgate tune eagle3 --profile cpu --candidate smollm2-eagle3 --kind chat --concurrency 1 --max-steps 5

Each setting is one launch: what it finds is a candidate to be judged (pytest -m eagle3), not a verdict.
Exit codes: 0 a setting beats plain decoding, 1 none does, 2 misuse, 3 the machine or the client was the limit.
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "tune",
        help="search the best speculative setting with few launches",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=["eagle3"], help="what to tune")
    parser.add_argument("--profile", required=True, help="name of a profile")
    parser.add_argument("--candidate", required=True, metavar="NAME", help="a candidate that speculates")
    parser.add_argument("--root", type=Path, default=Path(), help="the checkout of sglgate (default: here)")
    parser.add_argument("--candidates", type=Path, help="folder of candidates (default: fixtures/candidates/PROFILE)")
    parser.add_argument("--stack", metavar="PYTHON", help="the interpreter with the sglang to tune for")
    parser.add_argument("--kind", default="chat", help="prompt set (default: %(default)s)")
    parser.add_argument("--concurrency", type=int, default=1, help="users (default: %(default)s)")
    parser.add_argument("--requests", type=int, default=8, help="measured requests a launch (default: %(default)s)")
    parser.add_argument("--output-tokens", type=int, default=128, help="per answer (default: %(default)s)")
    parser.add_argument("--max-steps", type=int, default=5, help="longest chain (default: %(default)s)")
    parser.add_argument("--topk", type=int, nargs="+", default=[1], help="branches to try (default: 1)")
    parser.add_argument("--launches", type=int, default=8, help="at most so many (default: %(default)s)")
    parser.add_argument("--logs", type=Path, help="folder of the server logs (default: reports/tune-TIME)")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Search and print the surface."""
    import dataclasses
    import json
    from datetime import UTC, datetime

    from sglgate.commands._models import with_models
    from sglgate.config import load_candidates, load_profiles
    from sglgate.config.candidate_files import select
    from sglgate.eagle3.arms import baseline_of, in_words, unequal_arms
    from sglgate.eagle3.tune import Figures, Setting, tune
    from sglgate.errors import ExitCode, MisuseError
    from sglgate.launch.node_lock import NodeLock, default_lock_file
    from sglgate.launch.pool import ServerPool
    from sglgate.launch.server import Server
    from sglgate.node import Live, require_node
    from sglgate.speed.cells import Cell, prompts_of
    from sglgate.speed.measure import flush, measure_cell
    from sglgate.stack import check_arguments, find_stack, read_stack

    profiles = load_profiles(args.root / "fixtures" / "profiles")
    if args.profile not in profiles:
        expected = f"known: {', '.join(profiles)}"
        raise MisuseError("no such profile", key="--profile", value=args.profile, expected=expected)
    profile = profiles[args.profile]
    folder = args.candidates or args.root / "fixtures" / "candidates" / profile.candidates_folder
    candidate = select(load_candidates(folder, profile), [args.candidate])[0]
    baseline = baseline_of(candidate)
    template = candidate.expect.eagle3.template if candidate.expect.eagle3 else "{prompt}"
    cell = Cell(args.kind, args.concurrency, args.requests, args.output_tokens, template)
    prompts = prompts_of(args.root / "fixtures" / "prompts", [args.kind])
    require_node(profile, Live(gpus=profile.needs_gpu))
    stack = read_stack(find_stack(args.stack, args.root))
    longest = Setting.chain(max(1, args.max_steps)).of(candidate)
    check_arguments(stack, [baseline, longest], profile.environment)
    logs = args.logs or args.root / "reports" / f"tune-{datetime.now(UTC):%Y%m%d-%H%M%S}"

    def make(arm: Candidate, log: Path, slots: tuple[int, ...]) -> Server:
        served = with_models(arm, args.root)
        return Server(served[0], profile, stack, served[1], log, slots)

    with NodeLock(default_lock_file(), f"tune {candidate.name}"):
        logs.mkdir(parents=True, exist_ok=True)
        pool = ServerPool(make, logs)

        infos: list[dict[str, Any]] = []

        def measure(setting: Setting | None) -> Figures:
            server = pool.fresh(setting.of(candidate) if setting else baseline)
            infos.append(server.info)
            flush(server.client)
            return Figures.of(measure_cell(server, cell, prompts))

        try:
            surface = tune(measure, max_steps=args.max_steps, topks=args.topk, launches=args.launches)
        finally:
            pool.stop()
    # A ratio of unequal arms is not that of speculation: the search goes on, and its reader is told.
    unequal = unequal_arms(infos[0], infos[1], candidate.expect.eagle3.may_differ if candidate.expect.eagle3 else None)
    if args.json:
        about = {"cell": cell.name, "logs": str(logs), "unequal_arms": unequal, "pays": surface.pays}
        print(json.dumps({**about, **dataclasses.asdict(surface)}))
    else:
        print(_text(surface, cell.name, logs))
        if unequal:
            print(f"the arms are not equal: {in_words(unequal)}")
    return int(ExitCode.GREEN if surface.pays else ExitCode.RED)


def _text(surface: Surface, cell: str, logs: Path) -> str:
    plain = surface.plain
    lines = [f"{cell}: plain decoding {plain.tok_per_s:.1f} tok/s, {plain.gap_ms:.2f} ms a step", ""]
    lines.append("steps  topk  tokens    ratio  predicted   tok/s  acceptance  round ms")
    for point in surface.points:
        s, f = point.setting, point.figures
        predicted = f"{point.predicted_ratio:9.3f}" if point.predicted_ratio is not None else f"{'-':>9}"
        measured = f"{point.ratio:7.3f}" if f else f"{'-':>7}"
        rest = f"{f.tok_per_s:7.1f}  {f.accept_length:10.2f}  {f.gap_ms:8.2f}" if f else f"{'not launched':>27}"
        mark = "  <- best" if point is surface.best else ""
        lines.append(f"{s.steps:5}  {s.topk:4}  {s.draft_tokens:6}  {measured}  {predicted} {rest}{mark}")
    if surface.draft_step_ms is not None:
        lines += ["", f"a draft step takes {surface.draft_step_ms:.2f} ms, verifying {surface.verify_ms:.2f} ms"]
    verdict = "beats" if surface.pays else "is the best and does not beat"
    best = surface.best.setting
    lines.append(
        f"steps {best.steps}, topk {best.topk}, draft tokens {best.draft_tokens} {verdict} plain decoding: ratio "
        f"{surface.best.ratio:.3f} from one launch each ({surface.launches} in all, logs in {logs})"
    )
    return "\n".join(lines)
