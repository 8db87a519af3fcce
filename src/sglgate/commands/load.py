"""``sglgate load``: put a fixed load on a running SGLang server and print what came back."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from sglgate.errors import ExitCode

if TYPE_CHECKING:
    from sglgate.load import LoadResult, Summary

EPILOG = """\
example:
  sglgate load http://127.0.0.1:30000 --prompts fixtures/prompts --kind code --concurrency 4 --requests 16

Exit codes: 0 usable figures, 1 a request failed, 2 misuse, 3 the client (or the machine) was the limit.
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "load",
        help="load a running server; TTFT, ITL, TPOT, tokens per second, acceptance",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("url", help="base URL, for instance http://127.0.0.1:30000")
    parser.add_argument("--prompts", required=True, metavar="FOLDER", help="folder of the prompt sets")
    parser.add_argument("--kind", default="chat", help="prompt set (default: %(default)s)")
    parser.add_argument("--concurrency", type=int, help="closed loop: users")
    parser.add_argument("--rate", type=float, help="open loop: Poisson arrivals a second")
    parser.add_argument("--seed", type=int, default=0, help="of the arrivals (default: %(default)s)")
    parser.add_argument("--requests", type=int, required=True, help="measured requests, warm-up not counted")
    parser.add_argument("--warmup", type=int, help="requests before (default: one a user, or a tenth)")
    parser.add_argument("--output-tokens", type=int, default=128, help="per answer (default: %(default)s)")
    parser.add_argument("--template", default="{prompt}", help="text around {prompt}")
    parser.add_argument("--timeout-s", type=float, default=600.0, help="of one request")
    parser.add_argument("--json", action="store_true", help="the whole result, every request included")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Measure and print."""
    from pathlib import Path

    from sglgate.errors import MisuseError
    from sglgate.evidence import Verdict
    from sglgate.load import ClosedLoop, LoadPlan, OpenLoop, load_prompts, run_load

    if (args.concurrency is None) == (args.rate is None):
        raise MisuseError("give --concurrency (closed loop) or --rate (open loop), and only one of them")
    arrivals = (
        ClosedLoop(args.concurrency, args.requests)
        if args.rate is None
        else OpenLoop(args.rate, args.requests, args.seed)
    )
    result = run_load(
        LoadPlan(
            base_url=args.url,
            prompts=load_prompts(Path(args.prompts), args.kind),
            arrivals=arrivals,
            output_tokens=args.output_tokens,
            warmup_requests=args.warmup,
            template=args.template.replace("\\n", "\n"),
            timeout_s=args.timeout_s,
        )
    )
    print(result.model_dump_json(indent=2) if args.json else _text(result))
    return {Verdict.PASS: ExitCode.GREEN, Verdict.UNFIT: ExitCode.UNFIT}.get(result.verdict, ExitCode.RED)


def _text(result: LoadResult) -> str:
    lines = [f"{result.verdict}: {result.reason}"]
    if metrics := result.metrics:
        steady = sum(request.steady for request in result.measured)
        lines += [
            f"{result.arrivals}, {result.prompts}, {result.output_tokens} tokens an answer; "
            f"{steady} of {len(result.measured)} measured requests in steady state",
            f"total {metrics.tok_per_s:.1f} tok/s, {metrics.mean_in_flight:.2f} requests in flight",
            _row("per user, tok/s", metrics.tok_per_s_per_user),
            _row("TTFT, ms", metrics.ttft_ms),
            _row("TPOT, ms", metrics.tpot_ms),
            _row("ITL, ms", metrics.itl_ms),
            _row("event gap, ms", metrics.gap_ms),
            _row("end to end, ms", metrics.e2e_ms),
        ]
        if accepted := metrics.acceptance:
            rates = " ".join(f"{rate:.2f}" for rate in accepted.position_rates)
            lines.append(f"acceptance length {accepted.accept_length:.2f}, per position {rates or 'not reported'}")
    return "\n".join(lines)


def _row(name: str, summary: Summary | None) -> str:
    if summary is None:
        return f"{name:16} none in the steady state"
    return (
        f"{name:16} median {summary.median:9.2f}  mean {summary.mean:9.2f}  p90 {summary.p90:9.2f}  "
        f"p99 {summary.p99:9.2f}  max {summary.max:9.2f}  n {summary.n}"
    )
