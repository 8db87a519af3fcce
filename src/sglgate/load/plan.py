"""What load to offer: arrivals, prompts, lengths. Everything that a person can get wrong is refused here."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sglgate.errors import MisuseError
from sglgate.load.prompts import PromptSet
from sglgate.load.watch import ClientLimits


@dataclass(frozen=True)
class ClosedLoop:
    """``concurrency`` users, each sending its next request when the last is answered."""

    concurrency: int
    requests: int

    def __post_init__(self) -> None:
        _at_least("concurrency", self.concurrency, 1)
        _at_least("requests", self.requests, self.concurrency)

    @property
    def default_warmup(self) -> int:
        """One request a user: caches, graphs and connections are warm, and the concurrency is reached."""
        return self.concurrency

    def __str__(self) -> str:
        return f"closed loop, concurrency {self.concurrency}"


@dataclass(frozen=True)
class OpenLoop:
    """Poisson arrivals that do not wait for the server; the seed fixes every arrival time."""

    rate_per_s: float
    requests: int
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.rate_per_s > 0:
            raise MisuseError("must be above 0", key="rate_per_s", value=self.rate_per_s)
        _at_least("requests", self.requests, 1)

    @property
    def default_warmup(self) -> int:
        """A tenth of the requests."""
        return -(-self.requests // 10)

    def due_s(self, count: int) -> list[float]:
        """Due times of the first ``count`` arrivals, seconds from the start."""
        draw = random.Random(self.seed)  # noqa: S311 - arrivals, not secrets
        times, now = [], 0.0
        for _ in range(count):
            now += draw.expovariate(self.rate_per_s)
            times.append(now)
        return times

    def __str__(self) -> str:
        return f"open loop, {self.rate_per_s:g} requests/s, seed {self.seed}"


@dataclass(frozen=True)
class LoadPlan:
    """One measurement.

    Args:
        base_url: ``http://host:port`` of an SGLang server.
        prompts: sent in order, from the start again when they run out.
        arrivals: when requests are sent. Its ``requests`` are the measured ones; warm-up comes on top.
        output_tokens: each answer has exactly so many (``ignore_eos``), or the request failed.
        warmup_requests: sent first, at the same arrivals and without a pause; default: see ``arrivals``.
        template: text around each prompt; ``{prompt}`` stands for it. A draft trained on a chat template
            accepts little without it.
        fields: added to each request body, for instance ``{"return_logprob": True}``.
        timeout_s, stall_s: limits of one request: in all, and between two tokens.
        limits: from where on the client itself is the limit.
    """

    base_url: str
    prompts: PromptSet
    arrivals: ClosedLoop | OpenLoop
    output_tokens: int
    warmup_requests: int | None = None
    template: str = "{prompt}"
    fields: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float = 600.0
    stall_s: float = 60.0
    limits: ClientLimits = field(default_factory=ClientLimits)

    def __post_init__(self) -> None:
        # Below 2 there is no inter-token latency to speak of.
        _at_least("output_tokens", self.output_tokens, 2)
        if self.warmup_requests is not None:
            _at_least("warmup_requests", self.warmup_requests, 0)
        if "{prompt}" not in self.template:
            raise MisuseError("has no {prompt}", key="template", value=self.template)

    @property
    def warmup(self) -> int:
        """Requests sent before the measured ones."""
        return self.arrivals.default_warmup if self.warmup_requests is None else self.warmup_requests


def _at_least(key: str, value: int, least: int) -> None:
    if value < least:
        raise MisuseError(f"must be at least {least}", key=key, value=value)
