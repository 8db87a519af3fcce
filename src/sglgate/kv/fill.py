"""Fill a live server's KV pool with real requests, and watch whether answers change meanwhile."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from sglgate.errors import SglgateError
from sglgate.kv.live import target_pools
from sglgate.launch.client import Client, ServerError
from sglgate.launch.server import Server

#: Questions whose greedy answers are short and sure: asked alone, then while the pool is full.
WITNESSES: Final = (
    "The capital of France is",
    "Two plus two equals",
    "The first month of the year is",
)
_WITNESS_TOKENS: Final = 8
#: Several short prompts cost less than one long one: attention grows with the square of the length.
_MIN_REQUESTS: Final = 8
_MAX_REQUESTS: Final = 256
_DECODE_TOKENS: Final = 24
_TOKEN_IDS: Final = range(1000, 9000)
_POLL_S: Final = 0.05


@dataclass(frozen=True)
class Filled:
    """``peak_share`` of the pool was in use at once, by ``requests`` requests, without the help of a warm cache."""

    peak_share: float
    requests: int
    compared: int
    changed: int
    first_change: str
    detail: dict[str, Any] = field(default_factory=dict)


def plan_requests(capacity: int, share: float, context: int, slots: int) -> tuple[int, int]:
    """How many requests of how many prompt tokens occupy ``share`` of ``capacity`` tokens together.

    ``context`` is the longest request in tokens, ``slots`` how many may run at once. Aims at the middle between
    ``share`` and a full pool: SGLang keeps room for tokens that running requests have yet to produce.

    Raises:
        SglgateError: they cannot, however long the requests are.
    """
    target = int(capacity * (share + (1 - share) * 0.5))
    longest = context - _DECODE_TOKENS - 1
    count = min(max(_MIN_REQUESTS, -(-target // (longest + _DECODE_TOKENS))), slots, _MAX_REQUESTS)
    length = target // count - _DECODE_TOKENS
    if length > longest:
        raise SglgateError(
            f"{count} requests of {context} tokens cannot fill {share:.0%} of {capacity} tokens: "
            "raise max-running-requests or lower expect.kv.fill"
        )
    return count, length


def fill_pool(server: Server, share: float, deadline_s: float) -> Filled:
    """Send requests of distinct random tokens until ``share`` of the pool is in use, and ask the witnesses then.

    Raises:
        SglgateError: the pool cannot be filled by requests of this size, or a request failed.
    """
    capacity = min(pool.tokens for pool in target_pools(server.record))
    summary = server.record.summaries[0]
    count, length = plan_requests(capacity, share, summary.context_len, summary.max_running_requests)
    server.client.flush_cache()
    alone = [_ask(server.client, text, deadline_s) for text in WITNESSES]
    server.client.flush_cache()

    peak = _Peak(server.client)
    rng = random.Random(20261129)  # noqa: S311 - fixed prompts, not secrets
    prompts = [[rng.choice(_TOKEN_IDS) for _ in range(length)] for _ in range(count)]
    with ThreadPoolExecutor(count + len(WITNESSES)) as workers:
        loads = [workers.submit(_occupy, server.port, prompt, deadline_s) for prompt in prompts]
        try:
            peak.wait_for(int(share * capacity), loads, time.monotonic() + deadline_s)
            asked = [workers.submit(_ask_alone, server.port, text, deadline_s) for text in WITNESSES]
            full = [answer.result() for answer in asked]
            for load in loads:
                load.result()
        except ServerError as error:
            raise SglgateError(f"while the pool was filled: {error}") from error
        finally:
            peak.stop()
    server.client.flush_cache()
    changes = [
        f"{text!r}: {a!r} alone, {b!r} when full" for text, a, b in zip(WITNESSES, alone, full, strict=True) if a != b
    ]
    return Filled(
        peak_share=peak.tokens / capacity,
        requests=count,
        compared=len(WITNESSES),
        changed=len(changes),
        first_change=changes[0] if changes else "",
        detail={"capacity_tokens": capacity, "peak_tokens": peak.tokens, "prompt_tokens": length},
    )


def _ask(client: Client, text: str, deadline_s: float) -> str:
    return str(client.generate(text, max_new_tokens=_WITNESS_TOKENS, deadline_s=deadline_s)["text"])


def _ask_alone(port: int, text: str, deadline_s: float) -> str:
    # A connection of its own: requests' sessions are not made for threads.
    with Client(port) as client:
        return _ask(client, text, deadline_s)


def _occupy(port: int, prompt: list[int], deadline_s: float) -> None:
    with Client(port) as client:
        answer = client.generate(prompt, max_new_tokens=_DECODE_TOKENS, deadline_s=deadline_s, ignore_eos=True)
    produced = answer["meta_info"].get("completion_tokens")
    if produced != _DECODE_TOKENS:
        raise ServerError(f"asked for {_DECODE_TOKENS} tokens, got {produced}")


class _Peak:
    """Polls how many KV slots are in use, and keeps the highest figure."""

    def __init__(self, client: Client) -> None:
        self.tokens = 0
        self._client = client
        self._stop = threading.Event()

    def wait_for(self, tokens: int, loads: list[Future[None]], end: float) -> None:
        """Return once ``tokens`` are in use, or when the load is over without having reached that."""
        while self.tokens < tokens and not all(load.done() for load in loads):
            if time.monotonic() > end:
                raise ServerError("the requests did not finish within the deadline")
            self.tokens = max(self.tokens, self._client.used_tokens())
            self._stop.wait(_POLL_S)

    def stop(self) -> None:
        """No more polling."""
        self._stop.set()
