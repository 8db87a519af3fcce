"""Is the client itself the limit? A load generator that does not ask measures itself.

Three signs, taken while the load runs: the event-loop thread's share of a CPU, how late the loop runs its
timers, and how late requests leave. Judged afterwards, by pure functions.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sglgate.load.stats import quantile

TICK_S = 0.005


@dataclass(frozen=True)
class ClientLimits:
    """Beyond any of these the client is the limit.

    Attributes:
        cpu_share: of one CPU, by the thread that runs the event loop. A queue in front of a server that is
            busy 70 % of the time waits about 1.2 service times on average (M/D/1); beyond that it grows
            steeply.
        lag_p99_ms: floor of the bound on the loop's lag. Loop timers have a resolution of 1 ms, which is the
            lag of an idle loop.
        lag_share_of_gap: the bound itself: so large a part of the median gap between a stream's events may be
            ours.
        send_delay_p99_ms: due (or free) to sent.
        least_ticks: fewer samples of the loop than this are no clean bill.
        in_flight_share: closed loop: requests in flight, of those intended, must be at least so many.
    """

    cpu_share: float = 0.7
    lag_p99_ms: float = 2.5
    lag_share_of_gap: float = 0.25
    send_delay_p99_ms: float = 10.0
    least_ticks: int = 20
    in_flight_share: float = 0.98


class Tick(NamedTuple):
    """One sample: when it was due, how late it ran, and the thread's CPU time so far (all in seconds)."""

    due: float
    lag: float
    cpu: float


class LoopWatch:
    """Samples the running loop every 5 ms; use as a context manager inside it."""

    def __init__(self) -> None:
        self.ticks: list[Tick] = []

    def __enter__(self) -> LoopWatch:
        self._loop = asyncio.get_running_loop()
        self._due = time.perf_counter() + TICK_S
        self._handle = self._loop.call_later(TICK_S, self._tick)
        return self

    def __exit__(self, *exc: object) -> None:
        self._handle.cancel()
        if time.perf_counter() > self._due:
            # A loop blocked up to its end would otherwise leave no trace of it.
            self._sample()

    def _tick(self) -> None:
        now = self._sample()
        # From now, not from the due time: a late loop must not run a burst of ticks that look punctual.
        self._due = now + TICK_S
        self._handle = self._loop.call_later(TICK_S, self._tick)

    def _sample(self) -> float:
        now = time.perf_counter()
        self.ticks.append(Tick(self._due, now - self._due, time.thread_time()))
        return now


@dataclass(frozen=True)
class ClientCheck:
    """The client's own state during the steady window; ``reason`` is empty when it was not the limit."""

    reason: str
    cpu_share: float | None = None
    lag_p99_ms: float | None = None
    lag_max_ms: float | None = None
    lag_bound_ms: float | None = None
    send_delay_p99_ms: float | None = None
    ticks: int = 0

    @property
    def fit(self) -> bool:
        """Whether the figures are the server's."""
        return not self.reason


def judge_client(
    ticks: Sequence[Tick],
    window: tuple[float, float],
    *,
    median_gap_ms: float,
    send_delays_ms: Sequence[float],
    limits: ClientLimits,
) -> ClientCheck:
    """Judge the client from its ticks inside ``window`` (seconds, same clock).

    Args:
        median_gap_ms: between two events of one stream, as measured.
        send_delays_ms: due to sent, of the requests sent inside the window.
    """
    # A tick belongs to the window in which it was due or ran: a long stall may begin inside and end outside.
    inside = [tick for tick in ticks if window[0] <= tick.due + tick.lag and tick.due <= window[1]]
    if len(inside) < 2:
        return ClientCheck("the steady state is too short to judge the client", ticks=len(inside))
    first, last = inside[0], inside[-1]
    lags_ms = sorted(tick.lag * 1000 for tick in inside)
    cpu_share = (last.cpu - first.cpu) / (last.due + last.lag - first.due - first.lag)
    lag_p99_ms = quantile(lags_ms, 0.99)
    lag_bound_ms = max(limits.lag_p99_ms, limits.lag_share_of_gap * median_gap_ms)
    send_p99_ms = quantile(sorted(send_delays_ms), 0.99) if send_delays_ms else 0.0
    reasons = []
    if cpu_share > limits.cpu_share:
        reasons.append(f"its event loop used {cpu_share:.0%} of a CPU (at most {limits.cpu_share:.0%})")
    if lag_p99_ms > lag_bound_ms:
        reasons.append(f"its event loop ran {lag_p99_ms:.1f} ms late (p99; at most {lag_bound_ms:.1f} ms)")
        if cpu_share <= limits.cpu_share:
            reasons[-1] += f" at {cpu_share:.0%} of a CPU, so other work held it up"
    if send_p99_ms > limits.send_delay_p99_ms:
        reasons.append(f"requests left {send_p99_ms:.1f} ms late (p99; at most {limits.send_delay_p99_ms:g} ms)")
    if not reasons and len(inside) < limits.least_ticks:
        reasons.append(f"only {len(inside)} samples of the client in the steady state (at least {limits.least_ticks})")
    return ClientCheck(
        "the client is the limit: " + ", and ".join(reasons) if reasons else "",
        cpu_share=cpu_share,
        lag_p99_ms=lag_p99_ms,
        lag_max_ms=lags_ms[-1],
        lag_bound_ms=lag_bound_ms,
        send_delay_p99_ms=send_p99_ms,
        ticks=len(inside),
    )
