"""What a real step pays for its all-reduces, from the server's own profile.

``POST /start_profile`` writes one Chrome trace a rank (torch profiler). The time of the reductions in a
step is also the most that any faster path could save of it: a path of no cost at all would save exactly
that.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from sglgate.allreduce.paths import PATHS, Path
from sglgate.allreduce.verdicts import Finding
from sglgate.errors import MisuseError
from sglgate.evidence import Verdict


@dataclass(frozen=True)
class Reduction:
    """One all-reduce in a trace: whose kernel, when, how long."""

    path: str
    name: str
    start_us: float
    duration_us: float


@dataclass(frozen=True)
class Budget:
    """The communication budget of one kind of step (``decode`` or ``verify``) on one rank.

    ``share_of_step`` is the part of a step's time that any faster path could save at most, or None where the
    step's time is not known.
    """

    kind: str
    steps: int
    all_reduces_per_step: float
    us_each: float
    ms_per_step: float
    step_ms: float | None
    share_of_step: float | None
    by_path: Mapping[str, int]
    kernels: Mapping[str, int]


def geometry_count(layers: int, *, vocab_parallel_embedding: bool = True) -> int:
    """All-reduces of one forward pass of a dense tensor-parallel model: two a layer, one for the embedding.

    Attention's output projection and the MLP's down projection are row-parallel (sglang/srt/models/llama.py);
    the embedding is split by vocabulary and summed (layers/vocab_parallel_embedding.py). Logits are gathered.
    """
    return 2 * layers + int(vocab_parallel_embedding)


def read_trace(file: FilePath) -> list[Mapping[str, Any]]:
    """The events of a Chrome trace, ``.json`` or ``.json.gz``.

    Raises:
        MisuseError: not a trace.
    """
    raw = file.read_bytes()
    try:
        loaded = json.loads(gzip.decompress(raw) if file.suffix == ".gz" else raw)
    except (ValueError, gzip.BadGzipFile, EOFError) as error:
        raise MisuseError("not a Chrome trace", file=file, expected=str(error)) from error
    events = loaded.get("traceEvents") if isinstance(loaded, dict) else loaded
    if not isinstance(events, list):
        raise MisuseError("not a Chrome trace", file=file, expected="an object with traceEvents")
    return events


def reductions(events: Iterable[Mapping[str, Any]]) -> list[Reduction]:
    """All-reduces in the trace, in order of time: on a GPU its kernels, on a CPU the profiled operations."""
    timed = [event for event in events if event.get("ph") == "X" and "dur" in event]
    kernels = [event for event in timed if event.get("cat") == "kernel"]
    found = [
        Reduction(path.name, str(event["name"]), float(event["ts"]), float(event["dur"]))
        for event in kernels or timed
        if (path := _path_of(str(event.get("name", "")))) is not None
    ]
    return sorted(found, key=lambda reduction: reduction.start_us)


def _path_of(name: str) -> Path | None:
    return next((path for path in PATHS.values() if path.ran([name])), None)


def budget(found: Sequence[Reduction], *, kind: str, steps: int, step_ms: float | None = None) -> Budget:
    """The budget of ``steps`` equal steps.

    Args:
        kind: ``decode`` or ``verify``.
        steps: how many forward passes the profile covers; the server was asked for this number.
        step_ms: a step's time *without* the profiler, which slows a step down; None leaves the share open.
    """
    if steps < 1:
        raise MisuseError("a profile covers at least one step", key="steps", value=steps)
    total_us = sum(reduction.duration_us for reduction in found)
    ms_per_step = total_us / steps / 1e3
    return Budget(
        kind=kind,
        steps=steps,
        all_reduces_per_step=len(found) / steps,
        us_each=total_us / len(found) if found else 0.0,
        ms_per_step=ms_per_step,
        step_ms=step_ms,
        share_of_step=ms_per_step / step_ms if step_ms else None,
        by_path=dict(Counter(reduction.path for reduction in found)),
        kernels=dict(Counter(reduction.name for reduction in found)),
    )


def judge_server(path: Path, budgets: Sequence[Budget], expected_per_step: int | None = None) -> Finding:
    """Whether the declared path served the real steps, on every rank.

    Args:
        budgets: one a rank.
        expected_per_step: from the model's geometry (``geometry_count``); None where the layers fuse some
        away.
    """
    if not budgets:
        return Finding(Verdict.NOT_EXERCISED, "no rank left a profile")
    detail = {"ranks": [_as_detail(one) for one in budgets]}
    for rank, one in enumerate(budgets):
        if not one.by_path:
            return Finding(Verdict.NOT_EXERCISED, f"rank {rank}: no all-reduce in the profile", detail)
        if path.name not in one.by_path:
            served = ", ".join(sorted(one.by_path))
            reason = f"rank {rank}: its {one.kind} steps were reduced by {served}, not by {path.name}"
            return Finding(Verdict.NOT_EXERCISED, reason, detail)
        if expected_per_step is not None and one.all_reduces_per_step != expected_per_step:
            reason = (
                f"rank {rank}: {one.all_reduces_per_step:g} all-reduces a step, "
                f"the model's geometry has {expected_per_step}"
            )
            return Finding(Verdict.FAIL, reason, detail)
    first = budgets[0]
    reason = (
        f"{path.name} served {first.by_path[path.name] / first.steps:g} of {first.all_reduces_per_step:g} "
        f"all-reduces a {first.kind} step, {first.us_each:.1f} us each, {first.ms_per_step:.2f} ms a step"
    )
    return Finding(Verdict.PASS, reason, detail)


def _as_detail(one: Budget) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "steps": one.steps,
        "all_reduces_per_step": one.all_reduces_per_step,
        "us_each": one.us_each,
        "ms_per_step": one.ms_per_step,
        "step_ms": one.step_ms,
        "at_most_saved_share": one.share_of_step,
        "by_path": dict(one.by_path),
        "kernels": dict(one.kernels),
    }
