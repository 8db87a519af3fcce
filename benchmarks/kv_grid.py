"""Launch real servers over a grid of memory settings and keep what their logs say about the KV pool, as
test data.

    python benchmarks/kv_grid.py --stack STACK_PYTHON --models FOLDER --out tests/kv/logs [--only NAME ...]
    [--lock FILE]

Each entry of GRID is one launch on the CPU stack. Of its log the lines about memory are kept, personal
paths replaced, next to ``grid.json``: the model's configuration, the arguments and how the launch ended.
``tests/kv/test_real_logs.py`` then holds the predictor against every one of them. Two entries are found,
not given: the fraction just below the window and one just above. What they are is known only from what a
launch reads (free memory moves from one to the next), so that one which landed on the other side is repeated.
``sglgate/stack_side/kv_readings`` makes every server print the readings of its sizing as well, unrounded:
with them the formula must give the token count exactly.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sglgate.kv.checks import READINGS_PATH, exact_readings

SMOL, TINY = "smollm2-135m-instruct", "tiny-llama-tp2"
READY = "The server is fired up and ready to roll!"
KEEP = re.compile(
    r"server_args=|Load weight|KV Cache is|Memory pool end|Memory baseline|Using KV cache dtype|fired up|"
    r"max_total_tokens=|max_total_num_tokens=|max_running_requests|mem_fraction|Loaded weights leave|"
    r"Not enough memory|Scheduler hit an exception|Init parallel|kv reading"
)
GRID: dict[str, dict[str, Any]] = {
    "bf16-p1": {"model": SMOL, "args": {"mem-fraction-static": 0.08, "page-size": 1}},
    "bf16-p16": {"model": SMOL, "args": {"mem-fraction-static": 0.05, "page-size": 16}},
    "bf16-p64": {"model": SMOL, "args": {"mem-fraction-static": 0.1, "page-size": 64}},
    "bf16-cap-p64": {
        "model": SMOL,
        "args": {"mem-fraction-static": 0.3, "page-size": 64, "max-total-tokens": 10000},
    },
    "fp32-p64": {"model": SMOL, "args": {"mem-fraction-static": 0.1, "page-size": 64, "dtype": "float32"}},
    "tiny-tp2-p64": {"model": TINY, "args": {"mem-fraction-static": 0.03, "page-size": 64, "tp": 2}},
    "tiny-tp2-fp32": {
        "model": TINY,
        "args": {"mem-fraction-static": 0.05, "page-size": 16, "tp": 2, "dtype": "float32"},
    },
    "fp32-below": {"model": SMOL, "edge": -0.006, "args": {"page-size": 1, "dtype": "float32"}},
    "fp32-above": {"model": SMOL, "edge": +0.01, "args": {"page-size": 1, "dtype": "float32"}},
}
SPECULATIVE = {
    "speculative-algorithm": "EAGLE3",
    "speculative-num-steps": 3,
    "speculative-eagle-topk": 1,
    "speculative-num-draft-tokens": 4,
}


def main() -> int:
    """Run the asked entries; 0 when every launch ended as its entry expects."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stack", required=True, help="the CPU stack's python")
    parser.add_argument("--models", required=True, type=Path, help="folder with the small models")
    parser.add_argument("--draft", type=Path, help="an EAGLE-3 draft for the SmolLM2 model: adds the draft entries")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="these, in this order")
    parser.add_argument("--lock", type=Path, help="a file to lock while servers run")
    parser.add_argument("--batch", type=int, default=1, help="launches for each time the lock is taken")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server of this moment is ended too
    grid = dict(GRID)
    if asked.draft is not None:
        for name, extra in (
            ("draft-p16", {"page-size": 16}),
            ("draft-fp32", {"dtype": "float32"}),
        ):
            arguments = {"mem-fraction-static": 0.12, **SPECULATIVE, **extra}
            grid[name] = {"model": SMOL, "draft": asked.draft, "args": arguments}
    failures = 0
    names = asked.only or list(grid)
    if unknown := set(names) - grid.keys():
        parser.error(f"no such entry: {', '.join(sorted(unknown))} (of {', '.join(grid)})")
    for first in range(0, len(names), asked.batch):
        with locked(asked.lock):
            for name in names[first : first + asked.batch]:
                expected = "failed" if grid[name].get("edge", 0) < 0 else "ready"
                for _ in range(3 if "edge" in grid[name] else 1):
                    record = launch(name, grid[name], asked.stack, asked.models, asked.out)
                    print(f"{name:16} {record['outcome']:7} {record['seconds']:5.0f} s", flush=True)
                    if record["outcome"] == expected:
                        break
                failures += record["outcome"] != expected
    return int(failures > 0)


def launch(name: str, entry: dict[str, Any], stack: str, models: Path, out: Path) -> dict[str, Any]:
    """One launch to ready or to its end; writes the kept lines and the record."""
    arguments = dict(entry["args"])
    if "edge" in entry:
        at = starts_above(out, name, arguments["dtype"]) + entry["edge"]
        arguments["mem-fraction-static"] = max(0.001, round(at, 4))
    model = models / entry["model"]
    command = [stack, "-m", "sglang.launch_server", "--model-path", str(model), "--device", "cpu"]
    command += ["--attention-backend", "torch_native", "--host", "127.0.0.1", "--port", str(free_port())]
    command += ["--skip-server-warmup"]  # the pool is sized long before
    for key, value in arguments.items():
        command += [f"--{key}", str(value)]
    if "draft" in entry:
        command += ["--speculative-draft-model-path", str(entry["draft"])]
    environment = os.environ | {
        "SGLANG_USE_CPU_ENGINE": "1",
        "HF_HUB_OFFLINE": "1",
        "TORCH_COMPILE_DISABLE": "1",
        "TQDM_DISABLE": "1",
        "OMP_WAIT_POLICY": "PASSIVE",  # spinning threads starve one another on a machine with few cores
        "PYTHONPATH": str(READINGS_PATH),
    }
    if arguments.get("tp", 1) > 1:
        environment |= {
            "SGLANG_CPU_OMP_THREADS_BIND": "0|1",
            "SGLANG_NCCL_SO_PATH": "/nonexistent/libnccl.so",
        }
    began = time.monotonic()
    raw = out / f"{name}.raw"
    with raw.open("wb") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT, env=environment, process_group=0)
        try:
            outcome = wait(process, raw, deadline_s=480)
        finally:
            end(process)
    kept = [tidy(line, models) for line in raw.read_text("utf-8", "replace").splitlines() if KEEP.search(line)]
    raw.unlink()
    (out / f"{name}.log").write_text("\n".join(kept) + "\n", encoding="utf-8")
    config = json.loads((model / "config.json").read_text())
    record = {"outcome": outcome, "arguments": arguments, "model": entry["model"], "model_config": config}
    if "draft" in entry:
        record["draft_config"] = json.loads((entry["draft"] / "config.json").read_text())
    remember(out, name, record)
    return record | {"seconds": time.monotonic() - began, "lines": kept}


def wait(process: subprocess.Popen[bytes], log: Path, deadline_s: float) -> str:
    """``ready``, ``failed`` (the server gave up) or ``hung``."""
    until = time.monotonic() + deadline_s
    while time.monotonic() < until:
        text = log.read_text("utf-8", "replace")
        if READY in text:
            return "ready"
        if process.poll() is not None or "Scheduler hit an exception" in text:
            time.sleep(2)
            return "failed"
        time.sleep(1)
    return "hung"


def end(process: subprocess.Popen[bytes]) -> None:
    """End the server and its children, politely and then not."""
    for sign, patience_s in ((signal.SIGTERM, 15), (signal.SIGKILL, 15)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def starts_above(out: Path, name: str, dtype: str) -> float:
    """1 - avail / pre as the last launch of this entry read it, else as any of this dtype did."""
    known = json.loads((out / "grid.json").read_text())
    alike = [one for one in known if known[one]["arguments"].get("dtype") == dtype and one != name]
    for one in (name, *alike):
        readings = exact_readings(out / f"{one}.log") if one in known else None
        if readings is not None:
            return 1 - readings[1] / readings[0]
    sys.exit("run an entry of the same dtype first")


def remember(out: Path, name: str, record: dict[str, Any]) -> None:
    """Add or replace one record of grid.json."""
    path = out / "grid.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    known[name] = record
    path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def tidy(line: str, models: Path) -> str:
    """Without the paths of the machine that ran it."""
    line = line.replace(str(models), "models")
    line = re.sub(r"'(/[^']*)'", lambda found: f"'PATH/{Path(found[1]).name}'", line)
    return re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+", "PATH/", line)


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def locked(path: Path | None) -> Iterator[None]:
    """Hold the lock file, if there is one."""
    if path is None:
        yield
        return
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())
