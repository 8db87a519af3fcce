"""What one look of the telemetry costs: CPU time of the sampling thread, with and without the walk over all processes.

python benchmarks/telemetry_cost.py
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import psutil

from sglgate.node.host import read_host_sample
from sglgate.telemetry import INTERVAL_S

LOOKS = 100


def cost_ms(look: Callable[[], object]) -> float:
    """Median CPU milliseconds of this thread."""
    spent = []
    for _ in range(LOOKS):
        begun = time.thread_time()
        look()
        spent.append((time.thread_time() - begun) * 1e3)
    return statistics.median(spent)


def main() -> None:
    """Print both."""
    with_walk = cost_ms(lambda: read_host_sample(watch_own=True))
    without = cost_ms(lambda: read_host_sample(watch_own=False))
    print(f"{len(psutil.pids())} processes, one look every {INTERVAL_S} s, median of {LOOKS}")
    print(f"CPU lane, own processes walked: {with_walk:.2f} ms, {with_walk / INTERVAL_S / 10:.2f} % of one core")
    print(f"host half of a GPU lane:        {without:.2f} ms, {without / INTERVAL_S / 10:.2f} % of one core")


if __name__ == "__main__":
    main()
