"""Do our figures agree with `sglang.bench_serving` on the same server, within noise?

    python benchmarks/client_agreement.py URL --sglang-python PATH/bin/python --tokenizer FOLDER

Both clients send the same prompts with the same lengths at the same concurrency to one running server, in
ABBA order, the prefix cache flushed before each turn. Compared are medians over all requests of a turn, by
bench_serving's own definitions (whole run, no warm-up dropped). Noise is what either client differs from
itself between its turns: a figure agrees when the two means differ by no more than the larger of those
ranges, or by 2 %. Exit code 1 where one does not.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from sglgate.load import ClosedLoop, LoadPlan, PromptSet, Summary, load_prompts, run_load

FIGURES = {  # ours -> the key in bench_serving's report
    "TTFT, ms": "median_ttft_ms",
    "TPOT, ms": "median_tpot_ms",
    "ITL, ms": "median_itl_ms",
    "end to end, ms": "median_e2e_latency_ms",
    "total, tok/s": "output_throughput",
}
ALWAYS_AGREES = 0.02


def ours(args: argparse.Namespace, prompts: PromptSet) -> dict[str, float]:
    arrivals = ClosedLoop(args.concurrency, len(prompts))
    result = run_load(LoadPlan(args.url, prompts, arrivals, args.tokens, warmup_requests=0))
    if result.failed:
        raise SystemExit(f"our client: {result.reason}")
    print(f"    our client about itself: {result.verdict}: {result.reason}: {result.client}", file=sys.stderr)
    requests = result.requests
    itl_ms = [
        1000 * (request.arrival_s[i] - request.arrival_s[i - 1]) / tokens
        for request in requests
        for i in range(1, len(request.arrival_s))
        for tokens in [request.arrival_tokens[i] - request.arrival_tokens[i - 1]]
        for _ in range(tokens)
    ]
    return {
        "TTFT, ms": median(request.ttft_ms for request in requests),
        "TPOT, ms": median(request.tpot_ms for request in requests),
        "ITL, ms": median(itl_ms),
        "end to end, ms": median(request.e2e_ms for request in requests),
        "total, tok/s": sum(r.completion_tokens for r in requests) / max(r.ended_s for r in requests),
    }


def median(values) -> float:
    summary = Summary.of(values)
    assert summary is not None
    return summary.median


def bench_serving(args: argparse.Namespace, prompts: PromptSet) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        dataset, output = Path(folder, "prompts.jsonl"), Path(folder, "out.jsonl")
        answer = {"content": "an answer that is not used"}
        rows = ({"conversations": [{"content": prompt.text}, answer]} for prompt in prompts.prompts)
        dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))
        argv = [
            args.sglang_python, "-m", "sglang.bench_serving", "--backend", "sglang", "--base-url", args.url,
            "--dataset-name", "custom", "--dataset-path", str(dataset), "--tokenizer", args.tokenizer,
            "--model", args.tokenizer, "--sharegpt-output-len", str(args.tokens),
            "--num-prompts", str(len(prompts)), "--max-concurrency", str(args.concurrency),
            "--flush-cache", "--disable-tqdm", "--output-file", str(output),
        ]  # fmt: skip
        environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(argv, capture_output=True, text=True, timeout=900, env=environment)
        if done.returncode:
            raise SystemExit(f"bench_serving: exit {done.returncode}: {(done.stderr or done.stdout)[-800:]}")
        report = json.loads(output.read_text().splitlines()[-1])
    if report["completed"] != len(prompts):
        raise SystemExit(f"bench_serving completed {report['completed']} of {len(prompts)}")
    return {name: report[key] for name, key in FIGURES.items()}


def flush(url: str) -> None:
    for _ in range(50):
        try:
            urllib.request.urlopen(urllib.request.Request(f"{url}/flush_cache", method="POST"), timeout=30).close()
            return
        except OSError:
            time.sleep(0.2)  # refused while a request is still being cleared away
    raise SystemExit(f"{url}/flush_cache: refused for 10 s")


def agrees(mine: list[float], theirs: list[float]) -> tuple[float, float]:
    """(relative difference of the means, relative noise)."""
    middle = statistics.mean(mine + theirs)
    noise = max(max(mine) - min(mine), max(theirs) - min(theirs)) / middle
    return abs(statistics.mean(mine) - statistics.mean(theirs)) / middle, noise


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--sglang-python", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--prompts", default=str(Path(__file__).parents[1] / "fixtures" / "prompts"))
    parser.add_argument("--kind", default="chat")
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=2, help="ABBA rounds")
    args = parser.parse_args()
    prompts = load_prompts(Path(args.prompts), args.kind)
    turns: dict[str, list[dict[str, float]]] = {"ours": [], "theirs": []}
    ours(args, prompts)  # warms server and caches of the machine; not counted
    for name in ["ours", "theirs", "theirs", "ours"] * args.rounds:
        flush(args.url)
        turns[name].append({"ours": ours, "theirs": bench_serving}[name](args, prompts))
        print(f"  {name}: {turns[name][-1]}", file=sys.stderr, flush=True)
    print("| figure | sglgate | sglang.bench_serving | difference | noise | |")
    print("|---|---|---|---|---|---|")
    good = True
    for figure in FIGURES:
        mine, theirs = ([turn[figure] for turn in turns[name]] for name in ("ours", "theirs"))
        difference, noise = agrees(mine, theirs)
        verdict = difference <= max(noise, ALWAYS_AGREES)
        good &= verdict
        print(
            f"| {figure} | {statistics.mean(mine):.2f} | {statistics.mean(theirs):.2f} | {difference:.1%} | "
            f"{noise:.1%} | {'agrees' if verdict else 'DIFFERS'} |"
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
