"""Offer a plan's load to a server and judge what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

from sglgate.evidence import Verdict
from sglgate.load.client import Client, generate_body
from sglgate.load.flight import Flight
from sglgate.load.loop import fast_loop_factory
from sglgate.load.measure import request_result, steady_metrics
from sglgate.load.plan import ClosedLoop, LoadPlan, OpenLoop
from sglgate.load.results import LoadResult, Metrics, RequestResult
from sglgate.load.watch import ClientCheck, LoopWatch, Tick, judge_client


def run_load(plan: LoadPlan) -> LoadResult:
    """Run one measurement to its end.

    After the first failed request no more are sent, since nothing that follows could make the result usable;
    those in flight run on and are recorded. Uses uvloop where it is installed (docs/load.md has what that
    buys).

    Raises:
        MisuseError: ``base_url`` is no address.
    """
    started = datetime.now(UTC).isoformat(timespec="milliseconds")
    with _quiet_collector(), asyncio.Runner(loop_factory=fast_loop_factory()) as runner:
        run = runner.run(_drive(plan))
    return _judge(plan, run, started)


class _Run:
    """The live state of one measurement."""

    def __init__(self, plan: LoadPlan) -> None:
        self.plan = plan
        self.planned = plan.warmup + plan.arrivals.requests
        self.flights: list[Flight] = []
        self.ticks: list[Tick] = []
        self.dry_at = float("inf")
        self.broken = False
        # Encoded before the clock starts.
        self.bodies = [
            generate_body(plan.template.replace("{prompt}", p.text), plan.output_tokens, fields=plan.fields)
            for p in plan.prompts.prompts
        ]

    @property
    def exhausted(self) -> bool:
        return self.broken or len(self.flights) >= self.planned

    def next_flight(self, due: float) -> Flight:
        index = len(self.flights)
        self.flights.append(Flight(index, index % len(self.bodies), due))
        return self.flights[-1]

    async def send(self, client: Client, flight: Flight) -> None:
        await client.send(self.bodies[flight.prompt], flight, expected_tokens=self.plan.output_tokens)
        self.broken |= flight.failure is not None


async def _drive(plan: LoadPlan) -> _Run:
    run = _Run(plan)
    async with _client(plan) as client:
        with LoopWatch() as watch:
            if isinstance(plan.arrivals, ClosedLoop):
                await _closed_loop(run, client, plan.arrivals)
            else:
                await _open_loop(run, client, plan.arrivals)
    run.ticks = watch.ticks
    return run


async def _closed_loop(run: _Run, client: Client, arrivals: ClosedLoop) -> None:
    async def user() -> None:
        while not run.exhausted:
            await run.send(client, run.next_flight(time.perf_counter()))
        run.dry_at = min(run.dry_at, time.perf_counter())

    await asyncio.gather(*(user() for _ in range(arrivals.concurrency)))


async def _open_loop(run: _Run, client: Client, arrivals: OpenLoop) -> None:
    start = time.perf_counter()
    async with asyncio.TaskGroup() as requests:
        for due_s in arrivals.due_s(run.planned):
            await asyncio.sleep(start + due_s - time.perf_counter())
            if run.exhausted:
                break
            requests.create_task(run.send(client, run.next_flight(start + due_s)))
        run.dry_at = time.perf_counter()


def _judge(plan: LoadPlan, run: _Run, started: str) -> LoadResult:
    origin = min(flight.sent_at for flight in run.flights)
    window = _steady_window(plan, run)
    requests = tuple(
        request_result(
            flight,
            plan.prompts.prompts[flight.prompt],
            origin=origin,
            warmup=flight.index < plan.warmup,
            window=window,
        )
        for flight in run.flights
    )
    window_s = (window[0] - origin, window[1] - origin) if window else None
    metrics = steady_metrics(requests, window_s) if window_s else None
    client = _judge_client(plan, run, window, metrics)
    verdict, reason = _verdict(plan, run, requests, metrics, client)
    return LoadResult(
        at=started,
        base_url=plan.base_url,
        arrivals=str(plan.arrivals),
        output_tokens=plan.output_tokens,
        prompts=plan.prompts.name,
        prompts_digest=plan.prompts.digest,
        verdict=verdict,
        reason=reason,
        window_s=window_s,
        metrics=metrics,
        client=client,
        requests=requests,
        not_sent=run.planned - len(run.flights),
    )


def _steady_window(plan: LoadPlan, run: _Run) -> tuple[float, float] | None:
    """When the intended load was there, on the flights' clock.

    Closed loop: from the moment when all users have a request in flight and the warm-up has been sent, to the
    moment when the first user finds nothing more to send. Open loop: from the first measured arrival to the
    last.
    """
    users = plan.arrivals.concurrency if isinstance(plan.arrivals, ClosedLoop) else 1
    if len(run.flights) <= max(plan.warmup, users - 1):
        return None
    start = max(run.flights[plan.warmup].sent_at, run.flights[users - 1].sent_at)
    return (start, run.dry_at) if run.dry_at > start else None


def _judge_client(
    plan: LoadPlan, run: _Run, window: tuple[float, float] | None, metrics: Metrics | None
) -> ClientCheck:
    if window is None or metrics is None:
        return ClientCheck("there was no steady state to judge the client in")
    return judge_client(
        run.ticks,
        window,
        median_gap_ms=metrics.gap_ms.median if metrics.gap_ms else 0.0,
        send_delays_ms=[
            1000 * (f.sent_at - f.scheduled_at) for f in run.flights if window[0] <= f.sent_at <= window[1]
        ],
        limits=plan.limits,
    )


def _verdict(
    plan: LoadPlan,
    run: _Run,
    requests: tuple[RequestResult, ...],
    metrics: Metrics | None,
    client: ClientCheck,
) -> tuple[Verdict, str]:
    """FAIL before UNFIT: a server that breaks is the finding, however the client was."""
    failed = [request for request in requests if request.failure is not None]
    if failed:
        first = min(failed, key=lambda request: request.ended_s)
        assert first.failure is not None
        text = f"{len(failed)} of {len(requests)} requests failed, first {first.index} ({first.failure.kind}): "
        return Verdict.FAIL, text + first.failure.detail
    if metrics is None:
        return Verdict.UNFIT, f"{plan.arrivals} was never in flight"
    if not client.fit:
        return Verdict.UNFIT, client.reason
    if isinstance(plan.arrivals, ClosedLoop):
        wanted = plan.arrivals.concurrency
        if metrics.mean_in_flight < plan.limits.in_flight_share * wanted:
            return Verdict.UNFIT, f"only {metrics.mean_in_flight:.2f} requests in flight, {wanted} intended"
    return Verdict.PASS, f"{len(requests)} requests answered in full; the client was not the limit"


@contextlib.asynccontextmanager
async def _client(plan: LoadPlan) -> AsyncIterator[Client]:
    client = Client(plan.base_url, timeout_s=plan.timeout_s, stall_s=plan.stall_s)
    try:
        yield client
    finally:
        client.close()
        # Transports close in the next turn of the loop; without it their sockets outlive it.
        await asyncio.sleep(0)


@contextlib.contextmanager
def _quiet_collector() -> Iterator[None]:
    """No garbage collection while measuring: a full one over the records stops all streams for its time."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
