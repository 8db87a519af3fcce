"""Fill a live server's KV pool with real requests, and watch whether answers change meanwhile."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from sglgate.errors import SglgateError
from sglgate.kv.live import target_pools
from sglgate.launch.client import Client, ServerError
from sglgate.launch.server import Server

#: Asked alone, then while the pool is full, where the candidate names no answers of its own.
WITNESSES: Final = (
    "The capital of France is",
    "Two plus two equals",
    "The first month of the year is",
)
_WITNESS_TOKENS: Final = 8
#: Several short prompts cost less than one long one: attention grows with the square of the length.
_MIN_REQUESTS: Final = 8
_MAX_REQUESTS: Final = 256
_DECODE_TOKENS: Final = 48
_TOKEN_IDS: Final = range(1000, 9000)
_POLL_S: Final = 0.05


@dataclass(frozen=True)
class Filled:
    """What happened while ``requests`` requests occupied ``peak_share`` of the pool at once.

    ``wrong`` are answers, given with the pool empty, without the text that they must contain; ``changed`` are those
    that were others when it was full; ``in_flight`` requests still occupied it when the last of them came. ``answers``
    are those of the empty pool, by prompt: sign-off holds them against another release's.
    """

    peak_share: float
    requests: int
    in_flight: int
    compared: int
    wrong: list[str]
    changed: list[str]
    answers: dict[str, str]
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


def fill_pool(server: Server, share: float, deadline_s: float, answers: Mapping[str, str]) -> Filled:
    """Send requests of distinct random tokens until ``share`` of the pool is in use, and ask then.

    ``answers`` maps prompts to what their greedy answers must contain; without any, the witnesses are asked, whose
    answers need only stay the same.

    Raises:
        SglgateError: the pool cannot be filled by requests of this size, or a request failed.
    """
    capacity = min(pool.tokens for pool in target_pools(server.record))
    summary = server.record.summaries[0]
    count, length = plan_requests(capacity, share, summary.context_len, summary.max_running_requests)
    texts = list(answers or WITNESSES)
    server.client.flush_cache()
    alone = [_ask(server.client, text, deadline_s) for text in texts]
    server.client.flush_cache()

    rng = random.Random(20261129)  # noqa: S311 - fixed prompts, not secrets
    prompts = [[rng.choice(_TOKEN_IDS) for _ in range(length)] for _ in range(count)]
    workers = ThreadPoolExecutor(count + len(texts))
    try:
        loads = [workers.submit(_occupy, server.port, prompt, deadline_s) for prompt in prompts]
        peak = _wait_until_full(server.client, int(share * capacity), loads, time.monotonic() + deadline_s)
        full = list(workers.map(lambda text: _ask_alone(server.port, text, deadline_s), texts))
        in_flight = sum(not load.done() for load in loads)
        for load in loads:
            load.result()
    except ServerError as error:
        raise SglgateError(f"while the pool was filled: {error}") from error
    finally:
        # Whoever interrupts does not wait for the answers: the server is about to be stopped.
        interrupted = isinstance(sys.exc_info()[1], KeyboardInterrupt)
        workers.shutdown(wait=not interrupted, cancel_futures=True)
    server.client.flush_cache()
    pairs = list(zip(texts, alone, full, strict=True))
    return Filled(
        peak_share=peak / capacity,
        requests=count,
        in_flight=in_flight,
        compared=len(texts),
        wrong=[f"{text!r}: {a!r}" for text, a, _ in pairs if not a.strip() or answers.get(text, "") not in a],
        changed=[f"{text!r}: {a!r} alone, {b!r} when full" for text, a, b in pairs if a != b],
        answers=dict(zip(texts, alone, strict=True)),
        detail={"capacity_tokens": capacity, "peak_tokens": peak, "prompt_tokens": length},
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


def _wait_until_full(client: Client, tokens: int, loads: list[Future[None]], end: float) -> int:
    """The most KV slots seen in use, once that is ``tokens``, or when the load is over without having reached it."""
    peak = 0
    while peak < tokens and not all(load.done() for load in loads):
        if time.monotonic() > end:
            raise ServerError("the requests did not finish within the deadline")
        peak = max(peak, client.used_tokens())
        time.sleep(_POLL_S)
    return peak
