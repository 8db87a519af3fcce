"""A short profile of real decode steps, taken from a live server while it generates."""

from __future__ import annotations

import gzip
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sglgate.errors import SglgateError
from sglgate.launch.client import Client

PREFILL_S = 1.0
_POLL_S = 0.2
_ROOM_FACTOR = 20


class ProfileError(SglgateError):
    """The server gave no profile, or not of every rank."""


def decode_step_ms(generate: Callable[[int], Any], tokens: int = 32) -> float:
    """Milliseconds of a decode step of one request, without the profiler: the slope between two lengths.

    Args:
        generate: makes the server generate that many tokens and returns when it has.
        tokens: the difference of the two lengths.
    """
    took = []
    for length in (1, 1 + tokens):
        started = time.perf_counter()
        generate(length)
        took.append(time.perf_counter() - started)
    return (took[1] - took[0]) / tokens * 1e3


def profile_decode(
    client: Client, generate: Callable[[int], Any], folder: Path, *, steps: int, ranks: int, deadline_s: float
) -> list[Path]:
    """Profile ``steps`` forward passes in the middle of a generation; one trace a rank, by rank.

    ``POST /start_profile`` with ``num_steps`` counts scheduler steps from the next one on (profiler_manager.py,
    0.5.23); a generation long enough to outlast them leaves nothing but decode steps to be seen.

    Raises:
        ServerError: the server refuses to profile.
        ProfileError: no complete set of traces in time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    running = threading.Thread(target=generate, args=(steps * _ROOM_FACTOR,), daemon=True)
    running.start()
    # The prefill is over once a few decode steps' time has passed; it must not be among the profiled steps.
    time.sleep(PREFILL_S)
    client.start_profile(folder, steps, deadline_s)
    until = time.monotonic() + deadline_s
    while len(traces := _traces(folder)) < ranks:
        if time.monotonic() > until:
            raise ProfileError(f"{len(traces)} of {ranks} ranks wrote a profile in {deadline_s:g} s")
        time.sleep(_POLL_S)
    running.join(timeout=max(0.0, until - time.monotonic()))
    return [traces[rank] for rank in sorted(traces)]


def _traces(folder: Path) -> dict[int, Path]:
    found = {}
    for file in folder.glob("*.trace.json.gz"):
        rank = re.search(r"-TP-(\d+)", file.name)
        if rank is not None and _is_whole(file):
            found[int(rank[1])] = file
    return found


def _is_whole(file: Path) -> bool:
    # It is written in place; reading to the end checks gzip's own length and checksum.
    try:
        with gzip.open(file) as stream:
            while stream.read(1 << 20):
                pass
    except (OSError, EOFError):
        return False
    return True
