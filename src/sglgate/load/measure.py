"""From raw flights to figures: pure functions over what was recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sglgate.load.flight import Flight
from sglgate.load.prompts import Prompt
from sglgate.load.results import Acceptance, Metrics, RequestResult
from sglgate.load.stats import Summary

STEADY_SHARE = 0.95
# meta_info keys of the histogram: SGLang 0.5.12 on; 0.5.6 (absent) to 0.5.9. 0.5.12 to 0.5.20 send both.
_HISTOGRAM_KEYS = ("spec_correct_drafts_histogram", "spec_accept_histogram")


def request_result(
    flight: Flight, prompt: Prompt, *, origin: float, warmup: bool, window: tuple[float, float] | None
) -> RequestResult:
    """One request's record. ``origin`` and ``window`` are on the flight's clock (seconds)."""
    at, upto, meta = flight.at, flight.upto, flight.meta
    whole = flight.failure is None
    tokens = upto[-1] if upto else 0
    verify_steps = int(meta.get("spec_verify_ct") or 0) or None
    return RequestResult(
        index=flight.index,
        prompt_id=prompt.id,
        kind=prompt.kind,
        warmup=warmup,
        steady=window is not None and _share_inside(flight.sent_at, flight.ended_at, window) >= STEADY_SHARE,
        scheduled_s=flight.scheduled_at - origin,
        sent_s=flight.sent_at - origin,
        ended_s=flight.ended_at - origin,
        ttft_ms=1000 * (at[0] - flight.sent_at) if at else None,
        # From the first arrival's own count: the first event may carry more than one token.
        tpot_ms=1000 * (at[-1] - at[0]) / (tokens - upto[0]) if whole and tokens > upto[0] else None,
        e2e_ms=1000 * (flight.ended_at - flight.sent_at) if whole else None,
        prompt_tokens=meta.get("prompt_tokens"),
        cached_tokens=meta.get("cached_tokens"),
        completion_tokens=tokens,
        verify_steps=verify_steps,
        accept_length=tokens / verify_steps if verify_steps else None,
        draft_histogram=_histogram(meta),
        output_ids=flight.output_ids,
        text=flight.text,
        failure=flight.failure,
        arrival_s=tuple(time - origin for time in at),
        arrival_tokens=tuple(upto),
    )


def steady_metrics(requests: Sequence[RequestResult], window_s: tuple[float, float]) -> Metrics:
    """Figures of the steady state.

    Token figures (rate, ITL, gaps) take every arrival inside the window, TTFT every first token inside it,
    and figures of whole requests those that lie in it (``steady``). Warm-up requests that run into the window
    count for the rate, which is the server's, and for nothing else. Acceptance, which no concurrency changes,
    takes every measured request.
    """
    start, end = window_s
    measured = [request for request in requests if not request.warmup]
    steady = [request for request in measured if request.steady and request.failure is None]
    gaps = [gap for request in measured for gap in _gaps_ms(request, window_s)]
    tpots = [request.tpot_ms for request in steady if request.tpot_ms is not None]
    in_flight_s = sum(max(0.0, min(r.ended_s, end) - max(r.sent_s, start)) for r in requests)
    first_tokens = [r for r in measured if r.arrival_s and start <= r.arrival_s[0] <= end]
    return Metrics(
        ttft_ms=Summary.of(r.ttft_ms for r in first_tokens if r.ttft_ms is not None),
        itl_ms=Summary.of(gap / tokens for gap, tokens in gaps for _ in range(tokens)),
        gap_ms=Summary.of(gap for gap, _ in gaps),
        tpot_ms=Summary.of(tpots),
        e2e_ms=Summary.of(r.e2e_ms for r in steady if r.e2e_ms is not None),
        tok_per_s=sum(_tokens_inside(r, window_s) for r in requests) / (end - start),
        tok_per_s_per_user=Summary.of(1000 / tpot for tpot in tpots if tpot > 0),
        mean_in_flight=in_flight_s / (end - start),
        acceptance=acceptance(measured),
    )


def acceptance(requests: Iterable[RequestResult]) -> Acceptance | None:
    """Acceptance over the requests that ran under speculation; None if none did."""
    speculated = [r for r in requests if r.failure is None and r.verify_steps and r.accept_length]
    per_request = Summary.of(r.accept_length for r in speculated if r.accept_length)
    if per_request is None:
        return None
    steps = sum(r.verify_steps or 0 for r in speculated)
    histogram = [0] * max(len(r.draft_histogram) for r in speculated)
    for request in speculated:
        for accepted, count in enumerate(request.draft_histogram):
            histogram[accepted] += count
    return Acceptance(
        accept_length=sum(r.completion_tokens for r in speculated) / steps,
        per_request=per_request,
        verify_steps=steps,
        position_rates=position_rates(histogram),
    )


def position_rates(histogram: Sequence[int]) -> tuple[float, ...]:
    """Share of verify steps that accepted at least 1, 2, ... drafts; ``histogram[k]`` counts those with
    exactly k.

    Source: ``Req.update_spec_correct_drafts_histogram`` in ``srt/managers/schedule_batch.py``, sglang 0.5.23
    (0.5.9: ``update_spec_acceptance_histogram``).
    """
    total = sum(histogram)
    return tuple(sum(histogram[k:]) / total for k in range(1, len(histogram))) if total else ()


def _histogram(meta: dict[str, Any]) -> tuple[int, ...]:
    for key in _HISTOGRAM_KEYS:
        if meta.get(key):
            return tuple(meta[key])
    return ()


def _share_inside(start: float, end: float, window: tuple[float, float]) -> float:
    inside = min(end, window[1]) - max(start, window[0])
    return inside / (end - start) if end > start else 0.0


def _gaps_ms(request: RequestResult, window_s: tuple[float, float]) -> Iterable[tuple[float, int]]:
    """(gap in ms, tokens that ended it) of each arrival inside the window but the first of the stream."""
    at, upto = request.arrival_s, request.arrival_tokens
    for before, after in zip(range(len(at)), range(1, len(at)), strict=False):
        if window_s[0] <= at[after] <= window_s[1]:
            yield 1000 * (at[after] - at[before]), upto[after] - upto[before]


def _tokens_inside(request: RequestResult, window_s: tuple[float, float]) -> int:
    before = upto_start = 0
    for time, upto in zip(request.arrival_s, request.arrival_tokens, strict=True):
        if time < window_s[0]:
            upto_start = upto
        if time <= window_s[1]:
            before = upto
    return before - min(upto_start, before)
