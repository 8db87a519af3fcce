"""How fast and how small the log reader is, next to ``grep -c`` on the same file.

    python benchmarks/log_reader.py [--gib 1.0] [--keep FILE]

Writes a log (a start, then batch lines, access lines, retractions and a warning now and then), diagnoses it in
a process of its own and prints MB/s (10**6 bytes), peak memory, and the ratio to grep's time, one after the
other on the same file.
"""

# ruff: noqa: E501 - log lines are long
from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SRC = Path(__file__).resolve().parent.parent / "src"
START = """[2026-03-01 09:00:00] server_args=ServerArgs(model_path='/srv/models/m', tp_size=8, mem_fraction_static=0.85)
[2026-03-01 09:00:01 TP0] Init torch distributed begin.
[2026-03-01 09:00:09 TP0] Load weight begin. avail mem=93.80 GB
[2026-03-01 09:00:19 TP0] Load weight end. elapsed=10.1 s, type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=40.10 GB, mem usage=53.70 GB.
[2026-03-01 09:00:20 TP0] KV Cache is allocated. #tokens: 210432, K size: 12.84 GB, V size: 12.84 GB
[2026-03-01 09:00:21 TP0] Memory pool end. avail mem=14.01 GB
[2026-03-01 09:01:00] The server is fired up and ready to roll!
"""
END = """[2026-03-02 09:00:00 TP5] Scheduler hit an exception: Traceback (most recent call last):
  File "/usr/lib/python3.12/dist-packages/sglang/srt/managers/scheduler.py", line 1110, in event_loop_overlap
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.96 GiB. GPU 5 has a total capacity of 94.97 GiB of which 1.81 GiB is free.
[2026-03-02 09:00:01] Received sigquit from a child process. It usually means the child failed.
"""


def body_block() -> bytes:
    """About a mebibyte of what a busy server prints."""
    lines = []
    for n in range(1, 4200):
        stamp = f"2026-03-01 {9 + n // 3600 % 12:02d}:{n // 60 % 60:02d}:{n % 60:02d}"
        if n % 3 == 0:
            lines.append(
                f"[{stamp} TP0] Prefill batch, #new-seq: 1, #new-token: {n}, #cached-token: 0, token usage: 0.{n % 90:02d}, #running-req: {n % 48}, #queue-req: 0, input throughput (token/s): {n * 3.1:.2f}, cuda graph: False"
            )
        elif n % 3 == 1:
            lines.append(
                f"[{stamp} TP0] Decode batch, #running-req: {n % 48}, #token: {n * 40}, token usage: 0.{n % 90:02d}, accept len: 2.{n % 90:02d}, accept rate: 0.6{n % 9}, cuda graph: True, gen throughput (token/s): {n * 1.7:.2f}, #queue-req: 0"
            )
        else:
            lines.append(
                f'[{stamp}] INFO:     10.0.0.{n % 250}:{30000 + n} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
            )
        if n % 500 == 0:
            lines.append(
                f"[{stamp} TP0] KV cache pool is full. Retract requests. #retracted_reqs: 2, #new_token_ratio: 0.41 -> 0.74"
            )
        if n % 700 == 0:
            lines.append(f"[{stamp} TP{n % 8}] Setup Custom allreduce failed with nothing in particular.")
    return ("\n".join(lines) + "\n").encode()


def write_log(path: Path, gib: float) -> None:
    """A log of that size."""
    block = body_block()
    with path.open("wb") as stream:
        stream.write(START.encode())
        while stream.tell() < gib * 2**30:
            stream.write(block)
        stream.write(END.encode())


def child(path: Path) -> None:
    """Diagnose, and say how long it took and how much memory the process ever had."""
    sys.path.insert(0, str(SRC))
    from sglgate.diagnosis import diagnose_file

    begin = time.process_time(), time.perf_counter()
    answer = diagnose_file(path)
    print(json.dumps({
        "cpu_s": time.process_time() - begin[0], "wall_s": time.perf_counter() - begin[1],
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
        "cause": answer.cause, "line": answer.evidence[0].line, "lines": answer.facts["lines"],
    }))  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.keep or Path(folder) / "server.log"
        write_log(path, arguments.gib)
        size_mb = path.stat().st_size / 1e6
        subprocess.run(["cat", str(path)], stdout=subprocess.DEVNULL, check=True)  # both read from the page cache
        begin = time.perf_counter()
        counted = subprocess.run(["grep", "-c", "Traceback", str(path)], capture_output=True, text=True, check=True)
        grep_s = time.perf_counter() - begin
        done = subprocess.run(
            [sys.executable, __file__, "--child", str(path)], capture_output=True, text=True, check=True
        )
        result = json.loads(done.stdout)
    if (result["cause"], counted.stdout.strip()) != ("runtime_oom", "1"):
        raise SystemExit(f"wrong answer: {result}, grep {counted.stdout}")
    print(f"{size_mb:.0f} MB, {result['lines']} lines, cause {result['cause']} at line {result['line']}")
    print(
        f"sglgate  {size_mb / result['wall_s']:.0f} MB/s wall, {size_mb / result['cpu_s']:.0f} MB/s of one core, peak {result['peak_mb']:.0f} MB"
    )
    print(f"grep -c  {size_mb / grep_s:.0f} MB/s; sglgate takes {result['wall_s'] / grep_s:.1f} times as long")


if __name__ == "__main__":
    main()
