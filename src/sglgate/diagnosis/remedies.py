"""What to change, with the log's own figures in it, and what not to change."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

from sglgate.diagnosis.causes import CAUSES
from sglgate.diagnosis.context import Context
from sglgate.diagnosis.decide import Verdict
from sglgate.diagnosis.incident import Incident
from sglgate.diagnosis.model import Phase
from sglgate.diagnosis.oom import parse_oom
from sglgate.logs import GraphCapture, RankRecord, StartupRecord

_GIB: Final = 1 << 30
_COLLECT: Final = (
    "collect the whole log from the first line, the exit code, `dmesg | tail`, `nvidia-smi`, and for a hang "
    "py-spy stacks of all ranks"
)
_CAP_FLAG: Final = "--cuda-graph-max-bs, newer: --cuda-graph-max-bs-decode"


def remedy(
    verdict: Verdict, incident: Incident, record: StartupRecord, context: Context
) -> tuple[str, str, dict[str, Any]]:
    """(what to change, what not to, figures that belong to it)."""
    if verdict.cause == "none":
        return "", "", {}
    if verdict.cause == "unknown":
        return _unknown(verdict), "do not change flags at random: first make the failure say more", {}
    cause = CAUSES[verdict.cause]
    signature = verdict.hit.signature if verdict.hit is not None and verdict.hit.cause == verdict.cause else None
    change = (signature.remedy if signature else "") or cause.remedy
    avoid = (signature.avoid if signature else "") or cause.avoid
    figures: dict[str, Any] = {}
    if verdict.cause == "kv_budget_exhausted":
        change, figures = _kv_budget(verdict, incident, record, context, change)
    elif verdict.cause == "graph_capture_oom":
        change, figures = _graph_capture(verdict, record, change)
    elif verdict.cause == "gpu_memory_held":
        change, figures = _held(verdict, context, change)
    elif verdict.cause in ("weights_oom", "runtime_oom") and verdict.hit is not None:
        figures = _oom_figures(verdict.hit.text)
    elif verdict.cause == "kernel_resource_limit" and verdict.hit is not None and "required" in verdict.hit.facts:
        facts = verdict.hit.facts
        figures = {"required_bytes": int(facts["required"]), "limit_bytes": int(facts["limit"])}
        change = f"{change} (needs {facts['required']} of {facts['resource']}, the card has {facts['limit']})"
    elif verdict.note == "unbalanced_at_draft":
        change = "the check compares free memory again when the draft starts, after the target's weights: " + change
    return change, avoid, figures


def _unknown(verdict: Verdict) -> str:
    if verdict.note == "kv_pool_oom":
        return (
            "the card ran out of memory while the KV pool itself was allocated: it was sized for more than "
            "is free. Lower --mem-fraction-static, and look for another process on the card"
        )
    if verdict.note == "oom_somewhere":
        return (
            "the card ran out of memory, and nothing shows in which phase: weights, KV pool, graphs and serving "
            f"need opposite remedies; {_COLLECT}"
        )
    if verdict.note == "bus_error_in_weights":
        return (
            "a mapped file could not be read: compare the sizes of the weight files with the hub's, look at the disk "
            f"or the network mount, at free host memory, and at /dev/shm of the container; {_COLLECT}"
        )
    if verdict.outcome == "cut" and verdict.phase is Phase.DIST_INIT:
        return (
            "if the server still lived when the log ended, try NCCL_P2P_DISABLE=1 "
            f"(peer-to-peer over PCIe hangs silently); {_COLLECT}"
        )
    return _COLLECT


def _kv_budget(
    verdict: Verdict, incident: Incident, record: StartupRecord, context: Context, change: str
) -> tuple[str, dict[str, Any]]:
    """The smallest fraction that leaves a pool, and one request of the context length if the cell is known.

    rest = available - pre * (1 - f) has to hold tokens * cell bytes; see docs/diagnose.md.
    """
    facts = verdict.hit.facts if verdict.hit else {}
    figures: dict[str, Any] = {}
    current = _fraction(facts.get("mem_fraction_static")) or _fraction(
        (record.server_args or {}).get("mem_fraction_static")
    )
    printed = _fraction(facts.get("minimum_fraction"))
    pre, available = _pre_and_available(record)
    if current is not None:
        figures["mem_fraction_static"] = current
    if pre is not None and available is not None:
        figures["pre_gib"], figures["available_gib"] = pre, available
        figures["minimum_fraction"] = round(1 - available / pre, 4)
    if printed is not None:
        figures["printed_minimum_fraction"] = printed
        if "minimum_fraction" in figures:
            # Two printed decimals of each figure: 0.005 GiB either way.
            tolerance = 0.01 / pre * (1 + available / pre) if pre and available is not None else 0.0
            figures["minimum_agrees"] = abs(figures["minimum_fraction"] - printed) <= tolerance + 0.0001
    minimum = printed if printed is not None else figures.get("minimum_fraction")
    if minimum is None:
        return change, figures
    cell = _cell_bytes(incident, context, pre, available, current)
    context_len = (record.server_args or {}).get("context_length")
    if cell and pre:
        figures["kv_bytes_per_token"] = cell
        if isinstance(context_len, int):
            minimum_one = minimum + context_len * cell / _GIB / pre
            figures["fraction_for_one_request"] = math.ceil(minimum_one * 1000) / 1000
    needed = figures.get("fraction_for_one_request", minimum)
    if needed >= 0.97:
        return (
            f"the weights alone need a fraction of {minimum:.4f}: no --mem-fraction-static can help. "
            "Use more tensor parallelism or a quantised model, or free the card of other processes"
        ), figures
    if "fraction_for_one_request" in figures:
        return (
            f"raise --mem-fraction-static to at least {needed:.3f} (one request of {context_len} tokens); "
            f"{_without_raise(change)}",
            figures,
        )
    text = f"raise --mem-fraction-static above {minimum:.4f} (at this value the pool is still empty"
    if (advised := _fraction(facts.get("advised_fraction"))) is not None:
        figures["advised_fraction"] = advised
        text += f"; SGLang advises {advised:.3f}, which may still not hold one request"
    return (
        f"{text}; add the KV cache of one request of the context length); {_without_raise(change)}",
        figures,
    )


def _without_raise(change: str) -> str:
    return change.removeprefix("raise --mem-fraction-static, ")


def _pre_and_available(record: StartupRecord) -> tuple[float | None, float | None]:
    """Free memory before and after the weights: SGLang takes the minimum over ranks of each."""
    loads = [r.weights for r in record.ranks.values() if r.weights and r.weights[0].begin_avail_gib]
    if not loads:
        return None, None
    pre = min(load[0].begin_avail_gib for load in loads if load[0].begin_avail_gib is not None)
    ends = [load[-1].end_avail_gib for load in loads]
    if any(end is None for end in ends):
        return pre, None
    return pre, min(end for end in ends if end is not None)


def _cell_bytes(
    incident: Incident, context: Context, pre: float | None, available: float | None, fraction: float | None
) -> int | None:
    """Bytes of one token: given, or from the negative token count that SGLang profiled for a known budget."""
    if context.kv_bytes_per_token:
        return context.kv_bytes_per_token
    profiled = [int(hit.facts["profiled_tokens"]) for hit in incident.hits if "profiled_tokens" in hit.facts]
    if not profiled or pre is None or available is None or fraction is None:
        return None
    rest_gib = available - pre * (1 - fraction)
    return int(rest_gib * _GIB / min(profiled)) if rest_gib < 0 else None


def _fraction(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _oom_figures(text: str) -> dict[str, Any]:
    figures = parse_oom(text)
    found = {
        "tried_gib": figures.tried_gib,
        "free_gib": figures.free_gib,
        "total_gib": figures.total_gib,
        "missing_gib": figures.missing_gib,
    }
    return {key: round(value, 3) for key, value in found.items() if value is not None}


def _graph_capture(verdict: Verdict, record: StartupRecord, change: str) -> tuple[str, dict[str, Any]]:
    figures = _oom_figures(verdict.hit.text) if verdict.hit else {}
    capture = _unfinished(record, verdict.hit.rank if verdict.hit else "")
    parts = []
    if (missing := figures.get("missing_gib")) is not None:
        parts.append(f"at least {missing * 1024:.0f} MiB were missing for the allocation that failed")
    if capture is not None:
        figures["capture"] = capture.name
        if capture.last_size is not None:
            # SGLang captures from the largest size down: what was being captured is what did not fit.
            figures["size_at_failure"] = capture.last_size
            smaller = [size for size in capture.batch_sizes if size < capture.last_size]
            cap = max(smaller) if smaller else capture.last_size // 2
            if cap > 0:
                figures["cap_batch_size"] = cap
                parts.append(f"it failed at size {capture.last_size}: cap the sizes at {cap} ({_CAP_FLAG})")
        elif capture.batch_sizes:
            largest = max(capture.batch_sizes)
            figures["largest_batch_size"] = largest
            parts.append(f"batch sizes went up to {largest}: cap them lower ({_CAP_FLAG})")
        if capture.begin_avail_gib is not None:
            figures["avail_at_begin_gib"] = capture.begin_avail_gib
    fraction = _fraction((record.server_args or {}).get("mem_fraction_static"))
    if fraction is not None:
        figures["mem_fraction_static"] = fraction
        parts.append(f"--mem-fraction-static is {fraction:g} now")
    return (f"{change}; " + "; ".join(parts) if parts else change), figures


def _unfinished(record: StartupRecord, rank: str) -> GraphCapture | None:
    """The capture that ``rank`` was in; the size it had reached is drawn by rank 0 alone."""
    ranks: list[RankRecord] = [record.ranks[rank]] if rank in record.ranks else []
    running = [r.graphs[-1] for r in (*ranks, *record.ranks.values()) if r.graphs and r.graphs[-1].end_line is None]
    if not running:
        return None
    own = replace(running[0])
    for other in running:
        own.last_size = own.last_size or other.last_size
        own.batch_sizes = own.batch_sizes or other.batch_sizes
    return own


def _held(verdict: Verdict, context: Context, change: str) -> tuple[str, dict[str, Any]]:
    figures: dict[str, Any] = {}
    named = []
    if verdict.hit is not None:
        found = parse_oom(verdict.hit.text)
        figures.update(_oom_figures(verdict.hit.text))
        figures["holders"] = [{"pid": pid, "gib": round(gib, 2)} for pid, gib in found.others]
        named = [f"process {pid} holds {gib:.2f} GiB" for pid, gib in found.others]
        if found.unaccounted_gib is not None:
            figures["unaccounted_gib"] = round(found.unaccounted_gib, 2)
            named.append(f"{found.unaccounted_gib:.2f} GiB of the card are in use, but not by this process's torch")
        if "min_free_gib" in verdict.hit.facts:
            figures["min_free_gib"] = float(verdict.hit.facts["min_free_gib"])
            figures["local_free_gib"] = float(verdict.hit.facts["local_free_gib"])
            gap = figures["local_free_gib"] - figures["min_free_gib"]
            named.append(f"the fullest card has {gap:.2f} GiB less free than this one")
    if context.holders:
        figures["holders"] = [{"pid": h.pid, "gib": round(h.gib, 2), "name": h.name} for h in context.holders]
        named = [f"process {h.pid} {h.name} holds {h.gib:.2f} GiB".replace("  ", " ") for h in context.holders]
    if not figures.get("holders"):
        figures.pop("holders", None)
    return (f"{'; '.join(named)}: {change}" if named else change), figures
