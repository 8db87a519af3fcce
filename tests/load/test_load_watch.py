"""The client judges itself, and says so when the machine gave it too little to judge by."""

import asyncio
import time

from sglgate.load.watch import ClientLimits, LoopWatch, Tick, judge_client

WINDOW = (10.0, 11.0)


def ticks(lag_s=0.0005, cpu_share=0.1, count=200):
    return [Tick(10 + i / count, lag_s, 5 + cpu_share * i / count) for i in range(count)]


def judge(samples, *, gap_ms=10.0, delays=(0.1,), limits=None):
    return judge_client(
        samples, WINDOW, median_gap_ms=gap_ms, send_delays_ms=list(delays), limits=limits or ClientLimits()
    )


def test_an_idle_loop_is_fit():
    check = judge(ticks())
    assert check.fit
    assert abs(check.cpu_share - 0.1) < 0.01
    assert check.ticks == 200


def test_a_busy_loop_thread_is_the_limit():
    check = judge(ticks(cpu_share=0.9))
    assert not check.fit
    assert "90% of a CPU" in check.reason


def test_a_late_loop_is_the_limit_and_an_idle_one_points_at_other_work():
    check = judge(ticks(lag_s=0.02))
    assert "20.0 ms late" in check.reason
    assert "other work held it up" in check.reason
    assert "other work" not in judge(ticks(lag_s=0.02, cpu_share=0.95)).reason


def test_lag_is_judged_against_the_gap_that_it_would_distort():
    assert not judge(ticks(lag_s=0.010), gap_ms=10).fit
    assert judge(ticks(lag_s=0.010), gap_ms=60).fit


def test_one_long_stall_in_a_hundred_ticks_counts():
    samples = ticks(count=100)
    samples[50:53] = [Tick(tick.due, 0.2, tick.cpu) for tick in samples[50:53]]
    assert not judge(samples).fit


def test_a_stall_that_begins_in_the_window_counts_though_it_ends_after_it():
    samples = [*ticks(count=30), Tick(10.99, 0.5, 8.1)]
    assert judge(samples).lag_max_ms == 500


def test_requests_that_leave_late_are_the_clients_fault():
    assert "requests left" in judge(ticks(), delays=[0.1] * 50 + [40.0] * 50).reason


def test_too_few_samples_are_no_clean_bill():
    assert not judge(ticks(count=5)).fit
    assert not judge([]).fit
    assert not judge([Tick(3.0, 0, 0)] * 50).fit


def test_all_reasons_are_given():
    reason = judge(ticks(lag_s=0.02, cpu_share=0.9), delays=[90.0]).reason
    assert all(part in reason for part in ("90% of a CPU", "20.0 ms late", "requests left 90.0 ms late"))


def test_the_watch_sees_a_loop_that_is_blocked_to_its_end():
    async def blocked():
        with LoopWatch() as watch:
            time.sleep(0.08)
        return watch.ticks

    assert max(tick.lag for tick in asyncio.run(blocked())) > 0.06


def test_the_watch_samples_an_idle_loop():
    async def idle():
        with LoopWatch() as watch:
            await asyncio.sleep(0.3)
        return watch.ticks

    samples = asyncio.run(idle())
    assert len(samples) >= 10
    assert all(tick.lag > -0.002 for tick in samples)
