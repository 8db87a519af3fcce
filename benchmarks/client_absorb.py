"""Tokens per second that one core's worth of client can absorb, ours beside others, on the same stub.

    python benchmarks/client_absorb.py \\
        --sglang-python PATH/bin/python --tokenizer FOLDER --guidellm PATH/bin/guidellm

taskset holds the client on one CPU and the stub on another. Each answer is one event a token with the
cumulative text, as SGLang streams by default; the stub writes as fast as the client reads. In each round
every client has its turn at each concurrency, one after the other, so that a slow minute of the machine is
shared: the table has the median rate and, in brackets, median and range of the rate over ours of the same
round. Rates are whole-run output tokens per second as each client reports them, after its own start-up. A
client that is not there is named, with what is missing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sglgate.load import ClosedLoop, LoadPlan, PromptSet, run_load, stub
from sglgate.load.client import generate_body
from sglgate.load.flight import Flight

PROMPTS = PromptSet.of_texts("stub", tuple(f"prompt {number}" for number in range(64)))


class MissingError(Exception):
    """This client cannot run here."""


def ours(url: str, concurrency: int, requests: int, tokens: int) -> dict:
    arrivals = ClosedLoop(concurrency, requests)
    result = run_load(LoadPlan(url, PROMPTS, arrivals, tokens, warmup_requests=0))
    if result.failed:
        raise RuntimeError(result.reason)
    total = sum(request.completion_tokens for request in result.requests)
    return {
        "tok_per_s": total / max(request.ended_s for request in result.requests),
        "cpu_share": result.client.cpu_share,
    }


def aiohttp_reference(url: str, concurrency: int, requests: int, tokens: int) -> dict:
    """The same flights filled through aiohttp: what the own protocol code buys."""
    import aiohttp

    from sglgate.load.loop import fast_loop_factory

    bodies = [generate_body(prompt.text, tokens) for prompt in PROMPTS.prompts]
    todo = iter(range(requests))

    async def user(session: aiohttp.ClientSession) -> int:
        done = 0
        for index in todo:
            flight = Flight(index, index % len(bodies), time.perf_counter())
            async with session.post(f"{url}/generate", data=bodies[flight.prompt]) as response:
                async for line in response.content:
                    if line != b"\n":
                        flight.accept(time.perf_counter(), [line[6:-1]])
            flight.finish(tokens)
            done += flight.upto[-1]
        return done

    async def main() -> dict:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, read_bufsize=10 * 2**20) as session:
            start, cpu = time.perf_counter(), time.thread_time()
            total = sum(await asyncio.gather(*(user(session) for _ in range(concurrency))))
            wall = time.perf_counter() - start
            return {"tok_per_s": total / wall, "cpu_share": (time.thread_time() - cpu) / wall}

    with asyncio.Runner(loop_factory=fast_loop_factory()) as runner:
        return runner.run(main())


IN_PROCESS: dict[str, Callable[..., dict]] = {"sglgate": ours, "aiohttp + our recorder": aiohttp_reference}


def child(name: str, args: argparse.Namespace, url: str, concurrency: int, requests: int) -> dict:
    """One of our own clients, in a process pinned to the client's CPU."""
    argv = [sys.executable, __file__, "--child", name, url, str(concurrency), str(requests), str(args.tokens)]
    done = pinned(args, argv)
    return json.loads(done.stdout.splitlines()[-1])


def bench_serving(args: argparse.Namespace, url: str, concurrency: int, requests: int) -> dict:
    if not args.sglang_python:
        raise MissingError("--sglang-python was not given")
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "out.jsonl")
        argv = [
            args.sglang_python, "-m", "sglang.bench_serving", "--backend", "sglang", "--base-url", url,
            "--dataset-name", "random-ids", "--model", "stub", "--tokenizer", args.tokenizer,
            "--random-input-len", "16", "--random-output-len", str(args.tokens), "--random-range-ratio", "1",
            "--num-prompts", str(requests), "--max-concurrency", str(concurrency),
            "--ready-check-timeout-sec", "0", "--disable-tqdm", "--output-file", str(output),
        ]  # fmt: skip
        pinned(args, argv)
        report = json.loads(output.read_text().splitlines()[-1])
    if report["completed"] != requests:
        raise RuntimeError(f"bench_serving completed {report['completed']} of {requests}")
    return {"tok_per_s": report["output_throughput"]}


def guidellm(args: argparse.Namespace, url: str, concurrency: int, requests: int) -> dict:
    if not args.guidellm:
        raise MissingError("--guidellm was not given")
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "report.json")
        argv = [
            args.guidellm, "run", "--disable-console",
            "--backend", f"kind=openai_http,target={url},model=stub,validate_backend=false,"
            "request_format=/v1/completions",
            "--profile", f"kind=concurrent,streams={concurrency}",
            "--constraint", f"kind=max_requests,count={requests}",
            "--data", f"kind=synthetic_text,prompt_tokens=16,output_tokens={args.tokens}",
            "--tokenizer", f"kind=huggingface_auto,model={args.tokenizer}",
            "--output", f"kind=json,path={output}",
        ]  # fmt: skip
        pinned(args, argv)
        report = json.loads(output.read_text())
    metrics = report["benchmarks"][0]["metrics"]
    return {"tok_per_s": metrics["output_tokens_per_second"]["successful"]["mean"]}


OTHERS: dict[str, Callable[..., dict]] = {"sglang.bench_serving": bench_serving, "GuideLLM": guidellm}


def pinned(args: argparse.Namespace, argv: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    command = ["taskset", "-c", str(args.client_cpu), *argv]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    if done.returncode:
        raise MissingError(f"exit {done.returncode}: {(done.stderr or done.stdout).strip()[-600:]}")
    return done


def measure(args: argparse.Namespace) -> dict[str, dict[int, list[dict]]]:
    samples: dict[str, dict[int, list[dict]]] = {}
    missing: dict[str, str] = {}
    for _ in range(args.rounds):
        for concurrency in args.concurrency:
            requests = args.requests or max(32, 4 * concurrency)
            for name in [*IN_PROCESS, *OTHERS]:
                if name in missing:
                    continue
                with stub.running(stub.StubConfig(events_per_write=args.events_per_write), cpu=args.stub_cpu) as url:
                    try:
                        if name in IN_PROCESS:
                            sample = child(name, args, url, concurrency, requests)
                        else:
                            sample = OTHERS[name](args, url, concurrency, requests)
                    except MissingError as reason:
                        missing[name] = str(reason)
                        print(f"{name}: not run: {reason}", file=sys.stderr)
                        continue
                samples.setdefault(name, {}).setdefault(concurrency, []).append(sample)
                print(f"  {name} at {concurrency}: {sample}", file=sys.stderr, flush=True)
    return samples


def print_table(samples: dict[str, dict[int, list[dict]]], concurrencies: list[int]) -> None:
    rates = {
        (name, c): [sample["tok_per_s"] for sample in by_concurrency[c]]
        for name, by_concurrency in samples.items()
        for c in concurrencies
        if by_concurrency.get(c)
    }
    print("| client | " + " | ".join(f"{c} in flight, tok/s" for c in concurrencies) + " |")
    print("|---|" + "---|" * len(concurrencies))
    for name in samples:
        cells = []
        for c in concurrencies:
            found = rates.get((name, c), [])
            # A client that is not there drops out for good, so its samples are those of the first rounds.
            ratios = sorted(rate / mine for rate, mine in zip(found, rates["sglgate", c], strict=False))
            shown = f" ({statistics.median(ratios):.2f}; {ratios[0]:.2f} to {ratios[-1]:.2f})" if ratios else ""
            shown = "" if name == "sglgate" else shown
            cells.append(f"{statistics.median(found):,.0f}{shown}" if found else "failed")
        print(f"| {name} | " + " | ".join(cells) + " |")
    for name in IN_PROCESS:
        for c in concurrencies if name in samples else ():
            share = statistics.median(sample["cpu_share"] or 0.0 for sample in samples[name][c])
            rate = statistics.median(rates[name, c])
            per_cpu = f", {rate / share:,.0f} tokens per CPU second" if share else ""
            print(f"{name} at {c}: {share:.0%} of its CPU{per_cpu}")
    print("Below about 90 % the stub (or other work) was the limit, and the rate is a lower bound.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sglang-python", help="interpreter that has sglang")
    parser.add_argument("--tokenizer", help="folder with a tokenizer, for the clients that need one")
    parser.add_argument("--guidellm", help="the guidellm executable")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 64, 256])
    parser.add_argument("--tokens", type=int, default=256, help="per answer")
    parser.add_argument("--requests", type=int, help="default: four a user, at least 32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--events-per-write", type=int, default=4, help="of the stub")
    parser.add_argument("--client-cpu", type=int, default=0)
    parser.add_argument("--stub-cpu", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    samples = measure(args)
    if args.json:
        print(json.dumps(samples))
    else:
        print_table(samples, args.concurrency)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(IN_PROCESS[sys.argv[2]](sys.argv[3], *map(int, sys.argv[4:]))))
    else:
        main()
