"""Do N ranks sum every size exactly, and in time? All-reduce from 8 bytes to 64 MiB, each element checked.

    SGLGATE_LIMIT_S=SECONDS python probe_collectives.py --out FILE --ranks N --device cuda|cpu [--no-p2p]

This process starts the ranks and watches them: each writes how far it came, so that a hang has a size. One rank a
device, NCCL on GPUs and gloo on the CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import probe_common

SIZES_BYTES = (8, 64, 512, 4096, 1 << 15, 1 << 18, 1 << 19, 1 << 20, 1 << 22, 1 << 24, 1 << 26)
_POLL_S = 0.1


def main() -> None:
    """Start the ranks, or be one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--no-p2p", action="store_true", help="without peer access, to tell whose fault a hang is")
    parser.add_argument("--rank", type=int)
    args = parser.parse_args()
    if args.rank is not None:
        _rank(args)
        probe_common.finish()
    probe_common.die_with_parent()
    with tempfile.TemporaryDirectory(prefix="sglgate-ranks-") as folder:
        probe_common.write(args.out, _watch(args, folder))
    probe_common.finish()


def _limit_s() -> float:
    return float(os.environ["SGLGATE_LIMIT_S"])


def _watch(args: argparse.Namespace, folder: str) -> dict[str, Any]:
    files = [Path(folder) / f"rank{rank}.json" for rank in range(args.ranks)]
    environment = dict(os.environ)
    if args.device == "cpu":
        # One thread a rank, and no look-up of the host's name, which a machine without a network cannot answer.
        environment |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    if args.no_p2p:
        environment["NCCL_P2P_DISABLE"] = "1"
    environment["SGLGATE_RENDEZVOUS"] = f"file://{folder}/rendezvous"
    ranks = [
        subprocess.Popen(
            [
                *(sys.executable, __file__, "--out", str(file), "--rank", str(rank)),
                *("--ranks", str(args.ranks), "--device", args.device),
            ],
            stdin=subprocess.DEVNULL,
            env=environment,
        )
        for rank, file in enumerate(files)
    ]
    end = time.monotonic() + _limit_s()
    while any(rank.poll() is None for rank in ranks) and time.monotonic() < end:
        # A rank that died leaves the others waiting for ever.
        if any(rank.poll() not in (None, 0) for rank in ranks):
            break
        time.sleep(_POLL_S)
    codes = [rank.poll() for rank in ranks]
    for rank in ranks:
        if rank.poll() is None:
            rank.kill()
        rank.wait()
    return _joined([_read(file) for file in files], codes)


def _read(file: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _joined(reports: list[dict[str, Any]], codes: list[int | None]) -> dict[str, Any]:
    """One answer: the slowest rank's time of each size, the sum of wrong elements, who failed, where it stuck."""
    errors = {str(rank): report["error"] for rank, report in enumerate(reports) if report.get("error")}
    for rank, code in enumerate(codes):
        if code not in (None, 0) and str(rank) not in errors:
            errors[str(rank)] = f"ended with code {code}"
    sizes: dict[str, Any] = {}
    for size in SIZES_BYTES:
        entries = [report.get("sizes", {}).get(str(size)) for report in reports]
        if all(entries):
            sizes[str(size)] = {
                "wrong_elements": sum(entry["wrong_elements"] for entry in entries),
                "us": max(entry["us"] for entry in entries),
            }
    stuck = None
    if None in codes and not errors:
        begun = [report["at_bytes"] for report in reports if report.get("at_bytes") is not None]
        # Nobody came to a size: the group itself did not come up.
        stuck = min(begun, default=0)
    first = reports[0] if reports else {}
    return {
        "backend": first.get("backend"),
        "version": first.get("version"),
        "sizes": sizes,
        "errors": errors,
        "stuck_at_bytes": stuck,
        "finished": not errors and stuck is None and len(sizes) == len(SIZES_BYTES),
    }


def _rank(args: argparse.Namespace) -> None:
    report: dict[str, Any] = {"backend": "nccl" if args.device == "cuda" else "gloo", "sizes": {}, "at_bytes": None}
    try:
        _sweep(args, report)
    except BaseException as error:  # whatever it is, it is the answer
        report["error"] = probe_common.text_of(error)
        probe_common.write(args.out, report)
        raise


def _sweep(args: argparse.Namespace, report: dict[str, Any]) -> None:
    import torch
    import torch.distributed as dist

    device = torch.device("cpu")
    if args.device == "cuda":
        device = torch.device(f"cuda:{args.rank}")
        torch.cuda.set_device(device)
        report["version"] = ".".join(map(str, torch.cuda.nccl.version()))
    dist.init_process_group(
        report["backend"],
        init_method=os.environ["SGLGATE_RENDEZVOUS"],
        rank=args.rank,
        world_size=args.ranks,
        # Longer than the parent waits: it shall see the hang, and not an abort by torch's own watchdog.
        timeout=timedelta(seconds=2 * _limit_s()),
    )
    for size in SIZES_BYTES:
        report["at_bytes"] = size
        probe_common.write(args.out, report)
        base = torch.arange(size // 4, device=device, dtype=torch.int64) % 1021
        # Whole numbers that float32 adds without rounding: any wrong bit is an error and not noise.
        expected = (base * args.ranks + args.ranks * (args.ranks - 1) // 2).float()
        own = (base + args.rank).float()
        wrong, seconds = 0, []
        for _ in range(3):
            tensor = own.clone()
            if args.device == "cuda":
                torch.cuda.synchronize(device)
            begun = time.perf_counter()
            dist.all_reduce(tensor)
            if args.device == "cuda":
                torch.cuda.synchronize(device)
            seconds.append(time.perf_counter() - begun)
            wrong += int((tensor != expected).sum().item())
        report["sizes"][str(size)] = {"wrong_elements": wrong, "us": round(min(seconds) * 1e6, 1)}
    report["at_bytes"] = None
    probe_common.write(args.out, report)


if __name__ == "__main__":
    main()
