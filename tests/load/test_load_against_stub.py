"""The load generator against a server whose truth is known, over real sockets."""

import socket
import time

import pytest

from sglgate.errors import MisuseError
from sglgate.evidence import Verdict
from sglgate.load import ClientLimits, ClosedLoop, LoadPlan, OpenLoop, PromptSet, run_load, stub
from sglgate.load.flight import FailureKind, Flight

PROMPTS = PromptSet.of_texts("test", tuple(f"prompt {number}" for number in range(8)))
# For tests that are not about the client: whatever else runs on this machine must not decide them.
# A busy machine may hold this process up at will: what is asked here is not the time.
ANY_CLIENT = ClientLimits(99.0, lag_p99_ms=1e6, send_delay_p99_ms=1e6, least_ticks=0, in_flight_share=0)


def plan(url, arrivals=None, **changes):
    settings = {"output_tokens": 32, "limits": ANY_CLIENT, **changes}
    return LoadPlan(url, PROMPTS, arrivals or ClosedLoop(2, 6), **settings)


def test_a_closed_loop_measures_the_pace_that_the_server_has():
    with stub.running(stub.StubConfig(tok_per_s=100, prefill_ms=50)) as url:
        result = run_load(plan(url, ClosedLoop(4, 12)))
    assert result.verdict is Verdict.PASS, result.reason
    assert result.metrics is not None
    assert result.metrics.tpot_ms.median == pytest.approx(10, rel=0.1)
    assert result.metrics.ttft_ms.median >= 50
    assert result.metrics.tok_per_s_per_user.median == pytest.approx(100, rel=0.1)
    # 32 tokens in 50 ms and 31 gaps of 10 ms, by four users.
    assert result.metrics.tok_per_s == pytest.approx(4 * 32 / 0.36, rel=0.15)
    assert result.metrics.mean_in_flight == pytest.approx(4, rel=0.02)
    assert result.metrics.acceptance is None


def test_every_request_is_recorded_and_warmup_is_told_apart():
    with stub.running() as url:
        result = run_load(plan(url, ClosedLoop(3, 9), warmup_requests=5))
    assert [request.index for request in result.requests] == list(range(14))
    assert [request.warmup for request in result.requests] == [True] * 5 + [False] * 9
    assert result.metrics.ttft_ms.n <= len(result.measured) == 9
    assert result.requests[8].prompt_id == result.requests[0].prompt_id == "test-0"
    assert {len(request.output_ids) for request in result.requests} == {32}


@pytest.mark.parametrize("histogram_name", ["spec_correct_drafts_histogram", "spec_accept_histogram"])
def test_under_speculation_an_event_counts_all_its_tokens(histogram_name):
    config = stub.StubConfig(tok_per_s=120, tokens_per_event=3, histogram_name=histogram_name)
    with stub.running(config) as url:
        result = run_load(plan(url, output_tokens=31))
    metrics = result.metrics
    assert metrics.gap_ms.median == pytest.approx(25, rel=0.1)
    assert metrics.itl_ms.median == pytest.approx(25 / 3, rel=0.1)
    # Two events that a busy machine brings in one read are one gap, of six tokens.
    assert metrics.itl_ms.n % 3 == 0
    assert metrics.itl_ms.n >= 3 * metrics.gap_ms.n
    # 30 tokens after the first in 10 verify steps, each of which accepts both its drafts.
    assert {request.verify_steps for request in result.requests} == {10}
    assert metrics.acceptance.accept_length == pytest.approx(3.1)
    assert metrics.acceptance.position_rates == (1.0, 1.0)
    assert metrics.acceptance.verify_steps == 60


def test_a_server_that_streams_deltas_gives_the_same_answers():
    answers = []
    for incremental in (False, True):
        with stub.running(stub.StubConfig(tokens_per_event=2, incremental=incremental)) as url:
            result = run_load(plan(url))
        assert not result.failed, result.reason
        answers.append([(request.output_ids, request.text) for request in result.requests])
    assert answers[0] == answers[1]


def test_an_open_loop_sends_when_due_not_when_answered():
    with stub.running(stub.StubConfig(tok_per_s=100)) as url:
        result = run_load(plan(url, OpenLoop(rate_per_s=40, requests=40, seed=3), warmup_requests=0))
    assert result.verdict is Verdict.PASS, result.reason
    due = OpenLoop(rate_per_s=40, requests=40, seed=3).due_s(40)
    sent = [request.sent_s - result.requests[0].sent_s for request in result.requests]
    assert sent == pytest.approx([time - due[0] for time in due], abs=0.1)
    # An answer takes 0.31 s, so at 40 requests a second some twelve are in flight at a time.
    assert result.metrics.mean_in_flight > 4


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("die", FailureKind.DISCONNECTED),
        ("hang", FailureKind.STALLED),
        ("garbage", FailureKind.MALFORMED),
        ("truncated_json", FailureKind.MALFORMED),
        ("no_done", FailureKind.MALFORMED),
        ("short", FailureKind.TOKEN_COUNT),
        ("abort", FailureKind.ABORTED),
        ("error_event", FailureKind.SERVER_ERROR),
        ("http_503", FailureKind.HTTP_STATUS),
    ],
)
def test_a_request_that_fails_is_recorded_and_spoils_the_result(fault, kind):
    with stub.running(stub.StubConfig(tok_per_s=800, fault=fault, fault_at=3)) as url:
        result = run_load(plan(url, stall_s=0.5))
    assert result.verdict is Verdict.FAIL
    assert not result.usable
    assert kind in result.reason
    assert kind in {request.failure.kind for request in result.failed}
    assert len(result.requests) + result.not_sent == 8


def test_a_request_that_outlives_its_limit_is_a_timeout():
    with stub.running(stub.StubConfig(tok_per_s=20)) as url:
        result = run_load(plan(url, ClosedLoop(1, 1), timeout_s=0.3))
    assert result.failed[0].failure.kind is FailureKind.TIMEOUT
    assert 0 < result.failed[0].completion_tokens < 32


def test_a_server_that_dies_ends_the_run_at_once_with_every_request_accounted_for():
    began = time.monotonic()
    with stub.running(stub.StubConfig(tok_per_s=400, fault="die", fault_at=4)) as url:
        result = run_load(plan(url, ClosedLoop(4, 400)))
    assert time.monotonic() - began < 20
    assert result.verdict is Verdict.FAIL
    assert len(result.requests) + result.not_sent == 404
    assert result.not_sent > 390
    assert all(request.completion_tokens < 32 for request in result.failed)


def test_no_server_at_all_is_a_recorded_failure():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    result = run_load(plan(f"http://127.0.0.1:{port}"))
    assert result.failed[0].failure.kind is FailureKind.CONNECT
    assert result.metrics is None


def burning(seconds: float):
    accept = Flight.accept

    def slow(self: Flight, now: float, payloads: list[bytes]) -> None:
        accept(self, now, payloads)
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass

    return slow


def test_a_client_that_is_the_limit_says_unfit(monkeypatch):
    limits = ClientLimits(lag_p99_ms=60.0, lag_share_of_gap=0.0, send_delay_p99_ms=1e6)
    arrivals = ClosedLoop(8, 16)
    with stub.running(stub.StubConfig(tok_per_s=40)) as url:
        calm = run_load(plan(url, arrivals, limits=limits))
        monkeypatch.setattr(Flight, "accept", burning(0.012))
        busy = run_load(plan(url, arrivals, limits=limits))
    assert calm.verdict is Verdict.PASS, calm.reason
    assert busy.verdict is Verdict.UNFIT
    assert not busy.usable
    assert "the client is the limit" in busy.reason
    assert busy.client.lag_p99_ms > 60


def test_the_result_survives_json_without_its_raw_arrivals():
    with stub.running() as url:
        result = run_load(plan(url))
    dumped = result.model_dump(mode="json")
    assert dumped["requests"][0]["completion_tokens"] == 32
    assert "arrival_s" not in dumped["requests"][0]


@pytest.mark.parametrize("url", ["https://127.0.0.1:1", "127.0.0.1:30000", "http://"])
def test_what_is_no_address_is_misuse(url):
    with pytest.raises(MisuseError, match="base_url"):
        run_load(plan(url))
