"""What a measurement says: frozen, complete, and unusable as evidence as soon as one request failed."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from sglgate.evidence import Verdict
from sglgate.load.flight import Failure
from sglgate.load.stats import Summary
from sglgate.load.watch import ClientCheck


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RequestResult(_Frozen):
    """One request, good or failed. Times in seconds count from the first send of the run.

    ``arrival_s`` and ``arrival_tokens`` (the server's count after each arrival) are the raw record; they are
    left out of JSON for their size. A latency is None where it does not exist (a request that failed before).
    """

    index: int
    prompt_id: str
    kind: str
    warmup: bool
    steady: bool = Field(description="at least 95 % of its life lies in the steady window")
    scheduled_s: float
    sent_s: float
    ended_s: float
    ttft_ms: float | None = Field(description="sent to first token")
    tpot_ms: float | None = Field(description="(last - first arrival) / tokens after the first arrival")
    e2e_ms: float | None = Field(description="sent to last event")
    prompt_tokens: int | None
    cached_tokens: int | None = Field(description="prompt tokens that the prefix cache served")
    completion_tokens: int
    verify_steps: int | None = Field(description="meta_info.spec_verify_ct; None without speculation")
    accept_length: float | None = Field(description="completion_tokens / verify_steps")
    draft_histogram: tuple[int, ...] = Field(
        default=(), description="[k]: verify steps that accepted exactly k drafts; empty where not reported"
    )
    output_ids: tuple[int, ...]
    text: str
    failure: Failure | None
    arrival_s: tuple[float, ...] = Field(exclude=True, repr=False)
    arrival_tokens: tuple[int, ...] = Field(exclude=True, repr=False)


class Acceptance(_Frozen):
    """Acceptance over several requests.

    ``accept_length`` is weighted by verify steps (all tokens / all steps), ``per_request`` is not. Entry j
    (from 0) of ``position_rates`` is the share of verify steps that accepted at least j+1 drafts.
    """

    accept_length: float
    per_request: Summary
    verify_steps: int
    position_rates: tuple[float, ...]


class Metrics(_Frozen):
    """Figures of the steady state.

    ``itl_ms`` has one value a token: an event that carries k tokens counts k times with a k-th of its gap, as
    ``sglang.bench_serving`` does. ``gap_ms`` has one value an event: what a reader of the stream sees.
    """

    ttft_ms: Summary | None
    itl_ms: Summary | None
    gap_ms: Summary | None
    tpot_ms: Summary | None
    e2e_ms: Summary | None
    tok_per_s: float = Field(description="tokens that arrived in the window / its length")
    tok_per_s_per_user: Summary | None = Field(description="1000 / TPOT, per request: the rate that a user reads at")
    mean_in_flight: float
    acceptance: Acceptance | None = Field(description="None without speculation")


class LoadResult(_Frozen):
    """One measurement. ``verdict`` is PASS where its figures are evidence, FAIL where a request failed, UNFIT
    where the client was the limit or the intended load was never there.
    """

    at: str = Field(description="UTC, ISO 8601")
    base_url: str
    arrivals: str
    output_tokens: int
    prompts: str
    prompts_digest: str
    verdict: Verdict
    reason: str
    window_s: tuple[float, float] | None = Field(description="the steady state, seconds from the first send")
    metrics: Metrics | None
    client: ClientCheck
    requests: tuple[RequestResult, ...]
    not_sent: int = Field(description="planned, but given up after a failure")

    @property
    def usable(self) -> bool:
        """Whether the figures may stand as evidence."""
        return self.verdict is Verdict.PASS

    @property
    def failed(self) -> tuple[RequestResult, ...]:
        """Requests that failed, warm-up included."""
        return tuple(request for request in self.requests if request.failure is not None)

    @property
    def measured(self) -> tuple[RequestResult, ...]:
        """Requests after the warm-up."""
        return tuple(request for request in self.requests if not request.warmup)
