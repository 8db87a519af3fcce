"""One request from send to last event, and what SGLang's events say about it.

The path of every token: an event is looked at, not decoded. Only the last one is parsed as JSON, after the
clock.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sglgate.load.wire import WireError

DONE = b"[DONE]"
_COUNT_KEY = b'"completion_tokens":'


class FailureKind(StrEnum):
    """Why a request is no evidence."""

    CONNECT = "connect"
    HTTP_STATUS = "http_status"
    MALFORMED = "malformed"
    DISCONNECTED = "disconnected"
    TIMEOUT = "timeout"
    STALLED = "stalled"
    SERVER_ERROR = "server_error"
    ABORTED = "aborted"
    TOKEN_COUNT = "token_count"  # noqa: S105 - no password


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong with one request."""

    kind: FailureKind
    detail: str


class ServerReportedError(Exception):
    """The server put an error event into the stream."""


class Flight:
    """The raw record of one request. All times are ``time.perf_counter()`` seconds.

    Attributes:
        index: position in the order of sending; ``prompt`` is the position in the prompt set.
        scheduled_at: when it was due (open loop) or when its worker became free (closed loop).
        sent_at, ended_at: its bytes were handed to the socket; its last event arrived or it failed.
        at, upto: arrival times, and the server's count of completion tokens after each. Events that arrive in
            one read share one time, so only the last of them is kept; an event may carry several tokens.
        meta, output_ids, text: of the finished answer.
        failure: None for an answer that is whole.
    """

    __slots__ = (
        "_kept", "_last", "at", "done_seen", "ended_at", "failure", "index", "meta", "output_ids", "prompt",
        "scheduled_at", "sent_at", "text", "upto",
    )  # fmt: skip

    def __init__(self, index: int, prompt: int, scheduled_at: float) -> None:
        self.index, self.prompt, self.scheduled_at = index, prompt, scheduled_at
        self.sent_at = self.ended_at = 0.0
        self.at: list[float] = []
        self.upto: list[int] = []
        self.done_seen = False
        self.meta: dict[str, Any] = {}
        self.output_ids: tuple[int, ...] = ()
        self.text = ""
        self.failure: Failure | None = None
        self._last = b""
        # Payloads kept until two of them tell whether the server streams deltas; then all of them, or none.
        self._kept: list[bytes] | None = []

    def accept(self, now: float, payloads: list[bytes]) -> None:
        """Take the events of one read; raises :class:`WireError` or :class:`ServerReportedError`."""
        if self.done_seen:
            raise WireError("events after [DONE]")
        if payloads[-1] == DONE:
            self.done_seen = True
            payloads = payloads[:-1]
            if not payloads:
                return
        for payload in payloads:
            if payload[:1] != b"{" or payload[-1:] != b"}":
                raise WireError(f"an event is no JSON object: {payload[:80]!r}")
        last = payloads[-1]
        tokens = completion_tokens(last)
        before = self.upto[-1] if self.upto else 0
        if tokens > before:
            self.at.append(now)
            self.upto.append(tokens)
        elif tokens < before:
            raise WireError(f"completion_tokens went back from {before} to {tokens}")
        self._last = last
        self.ended_at = now
        if self._kept is not None:
            self._keep(payloads)

    def finish(self, expected_tokens: int | None) -> None:
        """The response is complete: read the final event and judge it; sets ``failure`` where it is not
        whole.

        ``expected_tokens`` is what was asked with ``ignore_eos``; None lets the server stop by itself.
        """
        if not self.done_seen or not self._last:
            raise WireError("the stream ends without " + ("an event" if self.done_seen else "[DONE]"))
        final = _loads(self._last)
        self.meta = final["meta_info"]
        reason = self.meta.get("finish_reason")
        tokens = self.upto[-1] if self.upto else 0
        events = [final] if self._kept is None else [_loads(payload) for payload in self._kept]
        if self._kept is not None and len(events) == 2 and _is_cumulative(events[0], events[1]):
            events = [final]
        self.output_ids = tuple(token for event in events for token in event.get("output_ids") or ())
        self.text = "".join(event.get("text") or "" for event in events)
        self._kept, self._last = None, b""
        if not isinstance(reason, dict):
            raise WireError("the last event has no finish_reason")
        if reason.get("type") == "abort":
            self.failure = Failure(FailureKind.ABORTED, str(reason.get("message", "aborted by the server")))
        elif expected_tokens is not None and tokens != expected_tokens:
            self.failure = Failure(FailureKind.TOKEN_COUNT, f"{tokens} tokens, asked for {expected_tokens}")
        elif expected_tokens is not None and self.output_ids and len(self.output_ids) != tokens:
            self.failure = Failure(
                FailureKind.TOKEN_COUNT,
                f"{len(self.output_ids)} output ids, but completion_tokens is {tokens}",
            )

    def fail(self, now: float, kind: FailureKind, detail: str) -> None:
        """Record why this request is no evidence; the first reason stays."""
        if self.failure is None:
            self.failure = Failure(kind, detail)
            self.ended_at = now

    def _keep(self, payloads: list[bytes]) -> None:
        assert self._kept is not None
        undecided = len(self._kept) < 2
        self._kept.extend(payloads)
        if undecided and len(self._kept) >= 2 and _is_cumulative(_loads(self._kept[0]), _loads(self._kept[1])):
            self._kept = None


def completion_tokens(payload: bytes) -> int:
    """The server's token count in one event.

    The key with its quotes and colon cannot occur inside a JSON string, where a quote is escaped, so a search
    from the end (the count stands behind the text and the ids) finds the real one without decoding an event
    that grows with every token.
    """
    start = payload.rfind(_COUNT_KEY) + len(_COUNT_KEY)
    if start >= len(_COUNT_KEY):
        digits = payload[start : payload.find(b",", start)]
        if digits.isdigit():
            return int(digits)
    count = _loads(payload)["meta_info"].get("completion_tokens")
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise WireError(f"an event has no completion_tokens: {payload[:80]!r}")
    return count


def _is_cumulative(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether the second event repeats the first; deltas (``--incremental-streaming-output``) do not."""
    ids = second.get("output_ids")
    if ids is not None:
        return bool(len(ids) == second["meta_info"]["completion_tokens"])
    return str(second.get("text", "")).startswith(str(first.get("text", "")))


def _loads(payload: bytes) -> dict[str, Any]:
    try:
        event = json.loads(payload)
    except ValueError as error:
        raise WireError(f"an event is no JSON: {error}: {payload[:80]!r}") from None
    if isinstance(event, dict) and "error" in event:
        raise ServerReportedError(json.dumps(event["error"]))
    if not isinstance(event, dict) or not isinstance(event.get("meta_info"), dict):
        raise WireError(f"an event without meta_info: {payload[:80]!r}")
    return event
