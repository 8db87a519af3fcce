"""A run of a node that does not exist, made up so that every part of the page has something to show.

    python -m tests.report.made FOLDER

No figure in it was measured; the run says so itself, in its candidates' reasons and in its machine.
"""

from __future__ import annotations

import datetime
import json
import math
import random
import sys
from pathlib import Path
from typing import Any

from sglgate.evidence import Evidence
from sglgate.report import write_html
from sglgate.run import Run, RunInfo

MADE_UP = "Made up for the tests of the page: nothing here was measured"
BEGAN = datetime.datetime(2026, 1, 1, 12, 0, tzinfo=datetime.UTC)
RANKS = [f"TP{rank}" for rank in range(8)]
POSITIONS = [0.78, 0.55, 0.36]
KIB = 1024


def at(seconds: float) -> str:
    return (BEGAN + datetime.timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def record(**fields: Any) -> Evidence:
    defaults: dict[str, Any] = {
        "at": at(0), "run": "made-up", "profile": "blackwell", "candidate": "spec", "suite": "kv", "gate": "pool",
        "test": "suites/kv/test_pool.py::test_pool[spec]", "verdict": "PASS", "reason": MADE_UP, "metric": "KV pool",
        "value": 4096, "bound": 1, "direction": "at_least", "unit": "tokens",
    }  # fmt: skip
    return Evidence.model_validate(defaults | fields)


def memory() -> list[Evidence]:
    parts = {
        "total": 95.6, "before_weights": 0.9, "custom_all_reduce": 0.02, "weights": 71.3, "draft_weights": 2.1,
        "target_pool": 12.4, "draft_pool": 0.4, "state_pool": None, "graphs": 1.9, "unlogged": 1.1, "left": 5.5,
    }  # fmt: skip
    seen = [
        {"rank": rank, **parts, "target_pool": 12.4 - 0.1 * n, "left": 5.5 + 0.1 * n} for n, rank in enumerate(RANKS)
    ]
    found = [
        record(
            gate="allocated_on_every_rank",
            metric="ranks with a KV pool",
            value=8,
            bound=8,
            direction="equal",
            unit="ranks",
            detail={"memory_gib": seen},
        )
    ]
    for n, rank in enumerate(RANKS):
        tokens = 189_000 - 1500 * n
        detail = {
            "rank": rank,
            "role": "target",
            "tokens_min": 187_000,
            "tokens_max": 190_200,
            "bytes_per_token": 70_272,
        }
        found.append(
            record(
                gate="predicted",
                metric=f"tokens of the target's pool, rank {rank}",
                value=tokens,
                bound="[187000, 190200]",
                direction="within",
                verdict="PASS" if tokens >= 187_000 else "FAIL",
                reason=f"{tokens} tokens lie outside; see line 3 of logs/spec.1.log",
                logs=("logs/spec.1.log",),
                detail=detail,
            )
        )
    return found


def speed() -> list[Evidence]:
    found = []
    for kind, gain in (("chat", 1.5), ("code", 1.9)):
        for users in (1, 4, 16, 64):
            ratio = 1 + (gain - 1) / math.sqrt(users) - 0.05
            blocks = [
                {"order": order, "plain_tok_per_s": 90 * users**0.8, "speculative_tok_per_s": 90 * users**0.8 * ratio,
                 "logs": [f"logs/spec--plain.{n}.log", f"logs/spec.{n}.log"]}
                for n, order in enumerate(("AB", "BA"), 1)
            ]  # fmt: skip
            found.append(
                record(
                    suite="eagle3",
                    gate="speed_against_baseline",
                    metric=f"{kind}@{users}: speculative / plain tok/s",
                    value=ratio,
                    bound=1.0,
                    unit="ratio",
                    n=5,
                    interval=(ratio - 0.04, ratio + 0.04),
                    verdict="PASS" if ratio > 1.04 else "INCONCLUSIVE",
                    detail={"kind": kind, "concurrency": users, "blocks": blocks},
                )
            )
    return found


def acceptance() -> list[Evidence]:
    intervals = [(p - 0.03, p + 0.03) for p in POSITIONS]
    found = [
        record(
            suite="eagle3",
            gate="draft_is_accepted",
            metric="first drafts accepted",
            value=POSITIONS[0],
            bound=0.02,
            unit="of verify steps",
            interval=intervals[0],
            n=32,
            detail={"mean": 2.7, "positions": POSITIONS, "position_intervals": intervals},
        )
    ]
    for place, (share, floor) in enumerate(zip(POSITIONS, (0.7, 0.5, 0.35), strict=True), 1):
        found.append(
            record(
                suite="eagle3",
                gate="positions_above_floors",
                metric=f"drafts accepted at position {place}",
                value=share,
                bound=floor,
                unit="of verify steps",
                interval=intervals[place - 1],
                n=32,
                verdict="PASS" if share - 0.03 >= floor else "INCONCLUSIVE",
            )
        )
    return found


def reduce_time() -> Evidence:
    rows = []
    for regime in ("cached", "uncached"):
        for size in (12 * KIB, 96 * KIB, 384 * KIB, 1024 * KIB, 4096 * KIB, 16_384 * KIB):
            slow = 28 + size / (9_000 if regime == "cached" else 8_000)
            fast = slow * (0.4 if size <= 1024 * KIB else 1.02)
            times = {"candidate_us": fast, "baseline_us": slow, "ratio": fast / slow}
            rows.append({"bucket": f"{size // KIB} KiB bf16 {regime}", "size_bytes": size, **times})
    detail = {"path": "pcie_ipc", "baseline": "nccl", "ranks": 8, "limit_bytes": 1024 * KIB, "rows": rows}
    return record(
        suite="allreduce", gate="no_slower", metric="time / nccl's, worst size, 8 ranks", value=1.02, bound=1.03,
        direction="at_most", unit="ratio", interval=(1.01, 1.025), n=5, detail=detail,
    )  # fmt: skip


def launches() -> list[dict[str, Any]]:
    found, moment = [], 0.0
    resolved = {"tp_size": 8, "max_running_requests": 48, "page_size": 1, "mem_fraction_static": 0.88}
    draft = {"speculative_algorithm": "EAGLE3", "speculative_num_steps": 3}
    for name, number in (("spec--plain", 1), ("spec", 1), ("spec", 2), ("spec--plain", 2)):
        phases = {"process": 21.5, "weights": 260.0 + 30 * number, "kv": 4.2, "graphs": 88.0, "first_token": 0.9}
        own = resolved | (draft if name == "spec" else {"page_size": 64})
        command = "-m sglang.launch_server --tp-size 8" + (" --speculative-algorithm EAGLE3" if name == "spec" else "")
        found.append(
            {
                "candidate": name,
                "began": at(moment),
                "phase_s": phases | {"total": sum(phases.values())},
                "ready_lag_s": 0.1,
                "command": command,
                "resolved": own,
                "log": f"logs/{name}.{number}.log",
            }
        )
        moment += 900
    problem = "launch failed in phase kv: the server exited with code 1\nmore"
    failed = {"candidate": "too-big", "began": at(moment), "log": "logs/too-big.1.log", "problem": problem}
    return [*found, failed]


def telemetry() -> str:
    draw = random.Random(1)
    lines, busy_s, own_s = [], 0.0, 0.0
    for second in range(0, 3700, 5):
        is_busy = second % 900 > 400
        gpus: list[dict[str, Any]] = [
            {"index": n, "sm_mhz": (2400 if is_busy else 1900) - draw.randrange(40), "used_mib": 90_000,
             "temperature_c": 45 + 25 * is_busy + n, "power_w": 95.0 + 350 * is_busy + draw.random() * 20}
            for n in range(8)
        ]  # fmt: skip
        gpus[0]["foreign"] = int(2900 < second < 2950)
        gpus[3]["reasons"] = 0x20 if 2000 < second < 2060 else 0x1
        own_s += 5 * 128 * 0.2
        busy_s += 5 * 128 * (0.2 + 0.02 * draw.random())
        host = {"cores": 128, "busy_s": busy_s, "own_s": own_s, "mhz": 3600.0}
        lines.append(json.dumps({"at": at(second), "t_s": 1000.0 + second, "host": host, "gpus": gpus}))
    return "\n".join(lines) + '\n{"at": "2026-01'


def make_run(reports: Path) -> Path:
    """The whole run; its page is not written."""
    info = RunInfo(
        name="made-up", profile="blackwell", sglgate="0", started=at(0), selection="blackwell",
        candidates={"spec": {"reason": MADE_UP, "extends": None}, "too-big": {"reason": MADE_UP, "extends": "spec"}},
        stack={"digest": "0" * 12, "python": "3.12", "packages": {"sglang": "0.5.23"}, "torch_build": {"cuda": "13.0"}},
        node={"cpu": "made up", "cores": 128, "ram_gib": 1024.0, "kernel": "6.8", "gpus": ["no real GPU: made up"] * 8},
        launches=launches(),
    )  # fmt: skip
    run = Run.begin(reports, info)
    failed = record(
        candidate="too-big", suite="launch", gate="as_declared", verdict="FAIL", metric="setup", value=None, bound=None,
        direction="equal", unit="", logs=("logs/too-big.1.log",),
        reason="launch failed in phase kv: kv_budget_exhausted (certain)\n  line 112: ValueError: no memory is left",
    )  # fmt: skip
    for one in (*memory(), reduce_time(), *acceptance(), *speed(), failed):
        run.add(one)
    for launch in info.launches:
        lines = [f"[2026-01-01 12:00:{n % 60:02} TP0] line {n} of a log that was made up" for n in range(1, 200)]
        (run.folder / launch["log"]).write_text("\n".join(lines) + "\n")
    (run.folder / "telemetry.jsonl").write_text(telemetry())
    run.info.finished, run.info.exit_code = at(4000), 1
    run.save()
    return run.folder


if __name__ == "__main__":
    print(write_html(make_run(Path(sys.argv[1]))))
