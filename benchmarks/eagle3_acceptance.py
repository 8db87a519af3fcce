"""Acceptance length of the draft on prompts that its training never saw, on a running EAGLE-3 server.

    python benchmarks/eagle3_acceptance.py http://127.0.0.1:30000 --prompts 35

Greedy, 96 tokens a prompt, one request at a time; a request's acceptance length is completion_tokens /
spec_verify_ct. Prints the mean and its 95 % interval (normal, over prompts), in all and per kind of prompt.
"""

from __future__ import annotations

import argparse
import json
import statistics
import urllib.request

from fixtures.models.eagle3.prompts import KINDS, prompts

SEED = 7
TOKENS = 96


def acceptance_length(url: str, text: str) -> float:
    sampling = {"temperature": 0, "max_new_tokens": TOKENS, "ignore_eos": True}
    body = json.dumps({"text": text, "sampling_params": sampling}).encode()
    request = urllib.request.Request(f"{url}/generate", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        meta = json.load(answer)["meta_info"]
    return meta["completion_tokens"] / meta["spec_verify_ct"]


def line(name: str, lengths: list[float]) -> str:
    mean = statistics.mean(lengths)
    half = 1.96 * statistics.stdev(lengths) / len(lengths) ** 0.5 if len(lengths) > 1 else float("nan")
    return f"{name:6} {mean:.2f} +- {half:.2f} (n={len(lengths)}, {min(lengths):.2f} to {max(lengths):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="a server started with --speculative-algorithm EAGLE3")
    parser.add_argument("--prompts", type=int, default=35)
    options = parser.parse_args()
    lengths: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for prompt in prompts(options.prompts, SEED, held_out=True):
        lengths[prompt.kind].append(acceptance_length(options.url, prompt.text))
    for kind, seen in lengths.items():
        if seen:
            print(line(kind, seen))
    print(line("all", [length for seen in lengths.values() for length in seen]))


if __name__ == "__main__":
    main()
