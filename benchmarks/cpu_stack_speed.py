"""Which dtype serves faster on this CPU, with and without EAGLE-3, and how long an acceptance length pays?

Real servers, one after the other, in mirrored order (A B C D D C B A), so that slow drift of the machine
falls on all alike:

    python benchmarks/cpu_stack_speed.py --stack .stacks/cpu/bin/python --model SMOLLM2_FOLDER --draft
    DRAFT_FOLDER

Prints, per setting, tokens per second of one request at a time (median and range), the acceptance length and
the time of a speculative cycle; per dtype, the ratio and the break-even acceptance length (cycle time x plain
tokens per second).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from itertools import product

QUESTIONS = (
    "What is the difference between a lake and a sea?",
    "Write a Python function that returns the longest of three words.",
    "Give me a JSON object that describes a kite with the fields colour, length_m and owner.",
    "Write a short story about a lighthouse keeper.",
)
TOKENS = 64
START_DEADLINE_S = 400.0
PORT = 31777
EAGLE3 = (
    *("--speculative-algorithm", "EAGLE3", "--speculative-num-steps", "3"),
    *("--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4"),
)


@dataclass(frozen=True)
class Setting:
    dtype: str
    speculative: bool

    def __str__(self) -> str:
        return f"{self.dtype} {'EAGLE-3' if self.speculative else 'plain'}"


@dataclass
class Seen:
    tok_per_s: list[float] = field(default_factory=list)
    cycle_ms: list[float] = field(default_factory=list)
    acceptance: list[float] = field(default_factory=list)


def post(path: str, body: object, timeout_s: float) -> dict[str, object]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=timeout_s) as answer:
        return json.load(answer)


def generate(question: str) -> dict[str, object]:
    text = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
    sampling = {"temperature": 0, "max_new_tokens": TOKENS, "ignore_eos": True}
    return post("/generate", {"text": text, "sampling_params": sampling}, timeout_s=300)["meta_info"]


def measure(setting: Setting, options: argparse.Namespace, seen: Seen) -> None:
    command = [
        *(
            options.stack,
            "-m",
            "sglang.launch_server",
            "--model-path",
            options.model,
            "--dtype",
            setting.dtype,
        ),
        *("--device", "cpu", "--attention-backend", "torch_native", "--mem-fraction-static", "0.3"),
        *(
            "--max-total-tokens",
            "8192",
            "--max-running-requests",
            "8",
            "--host",
            "127.0.0.1",
            "--port",
            str(PORT),
        ),
    ]
    if setting.speculative:
        command += ["--speculative-draft-model-path", options.draft, *EAGLE3]
    environment = os.environ | {
        "SGLANG_USE_CPU_ENGINE": "1",
        "HF_HUB_OFFLINE": "1",
        "TORCH_COMPILE_DISABLE": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
    }
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            wait_until_it_answers(server)
            for question in QUESTIONS:
                began = time.monotonic()
                meta = generate(question)
                taken_s = time.monotonic() - began
                seen.tok_per_s.append(TOKENS / taken_s)
                if setting.speculative:
                    cycles = meta["spec_verify_ct"]
                    seen.acceptance.append(meta["completion_tokens"] / cycles)
                    seen.cycle_ms.append(1000 * taken_s / cycles)
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def wait_until_it_answers(server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_DEADLINE_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            sys.exit(f"the server ended with code {server.returncode} before it answered")
        try:
            generate("Hello")
            return
        except OSError:
            time.sleep(1)
    sys.exit(f"the server did not answer within {START_DEADLINE_S:.0f} s")


def report(results: dict[Setting, Seen]) -> None:
    for setting, seen in results.items():
        line = f"{setting!s:18} {statistics.median(seen.tok_per_s):6.2f} tok/s "
        line += f"({min(seen.tok_per_s):.2f} to {max(seen.tok_per_s):.2f}, n={len(seen.tok_per_s)})"
        if setting.speculative:
            line += f", acceptance {statistics.mean(seen.acceptance):.2f}"
            line += f", cycle {statistics.median(seen.cycle_ms):.0f} ms"
        print(line)
    for dtype in dict.fromkeys(setting.dtype for setting in results):
        plain, eagle = results[Setting(dtype, False)], results[Setting(dtype, True)]
        ratio = statistics.median(eagle.tok_per_s) / statistics.median(plain.tok_per_s)
        break_even = statistics.median(eagle.cycle_ms) / 1000 * statistics.median(plain.tok_per_s)
        print(f"{dtype}: EAGLE-3 / plain {ratio:.2f}, break-even acceptance length {break_even:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stack", required=True, help="the stack's interpreter")
    parser.add_argument("--model", required=True, help="the SmolLM2 folder")
    parser.add_argument("--draft", required=True, help="the EAGLE-3 draft folder")
    parser.add_argument("--rounds", type=int, default=1, help="how often the mirrored order is run")
    options = parser.parse_args()
    settings = [Setting(*choice) for choice in product(("bfloat16", "float32"), (False, True))]
    results = {setting: Seen() for setting in settings}
    for setting in (settings + settings[::-1]) * options.rounds:
        measure(setting, options, results[setting])
        print(f"# {setting}: {results[setting].tok_per_s[-1]:.2f} tok/s", file=sys.stderr, flush=True)
    report(results)


if __name__ == "__main__":
    main()
