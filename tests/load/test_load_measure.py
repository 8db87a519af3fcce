"""From raw records to figures: which requests and tokens count where."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglgate.load.flight import Failure, FailureKind, Flight
from sglgate.load.measure import acceptance, position_rates, request_result, steady_metrics
from sglgate.load.prompts import Prompt
from sglgate.load.stats import Summary, quantile


def request(sent=0.0, arrivals=((0.1, 1), (0.2, 2)), *, window=(0.0, 10.0), warmup=False, meta=None, failure=None):
    flight = Flight(0, 0, sent)
    flight.sent_at = sent
    flight.at = [time for time, _ in arrivals]
    flight.upto = [count for _, count in arrivals]
    flight.ended_at = flight.at[-1] if arrivals else sent
    flight.meta = meta or {}
    flight.failure = failure
    return request_result(flight, Prompt("p", "k", "t"), origin=0.0, warmup=warmup, window=window)


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(0, 1))
def test_quantiles_are_numpys(values, q):
    assert quantile(sorted(values), q) == pytest.approx(float(np.quantile(values, q)), rel=1e-9, abs=1e-6)


def test_a_summary_keeps_the_outlier():
    summary = Summary.of([1.0] * 99 + [1000.0])
    assert summary.max == 1000.0
    assert summary.mean == pytest.approx(10.99)
    assert summary.n == 100
    assert Summary.of([]) is None


def test_latencies_of_one_request():
    result = request(1.0, [(1.5, 1), (1.7, 3), (1.9, 5)])
    assert result.ttft_ms == pytest.approx(500)
    assert result.e2e_ms == pytest.approx(900)
    assert result.tpot_ms == pytest.approx(100)


def test_tpot_does_not_charge_for_tokens_of_the_first_event():
    assert request(0.0, [(1.0, 4), (1.3, 7)]).tpot_ms == pytest.approx(100)


def test_a_failed_request_keeps_its_record_and_has_no_whole_latency():
    result = request(failure=Failure(FailureKind.STALLED, "x"))
    assert (result.e2e_ms, result.tpot_ms) == (None, None)
    assert result.ttft_ms == pytest.approx(100)
    assert result.completion_tokens == 2


def test_tokens_and_gaps_count_where_they_arrive():
    arrivals = [(0.5, 1), (1.5, 3), (2.0, 4), (3.5, 9)]
    metrics = steady_metrics([request(0.0, arrivals, window=(1.0, 3.0))], (1.0, 3.0))
    assert metrics.tok_per_s == pytest.approx((4 - 1) / 2)
    assert metrics.gap_ms.n == 2
    assert metrics.itl_ms.n == 3
    assert metrics.itl_ms.max == pytest.approx(500)
    assert metrics.ttft_ms is None


def test_warmup_counts_for_the_rate_and_nothing_else():
    warm = request(0.0, [(0.9, 1), (1.5, 5)], window=(1.0, 3.0), warmup=True)
    measured = request(1.0, [(1.2, 1), (2.9, 6)], window=(1.0, 3.0))
    metrics = steady_metrics([warm, measured], (1.0, 3.0))
    assert metrics.tok_per_s == pytest.approx((4 + 6) / 2)
    assert metrics.itl_ms.n == 5
    assert metrics.tpot_ms.n == 1
    assert metrics.mean_in_flight == pytest.approx((0.5 + 1.9) / 2)


def test_a_request_that_mostly_lies_outside_the_window_is_not_steady():
    assert request(1.0, [(1.5, 1), (2.0, 5)], window=(1.0, 2.0)).steady
    assert request(1.0, [(1.5, 1), (2.04, 5)], window=(1.0, 2.0)).steady
    assert not request(1.0, [(1.5, 1), (2.1, 5)], window=(1.0, 2.0)).steady
    assert not request(1.0, [(1.5, 1), (2.0, 5)], window=None).steady


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.floats(0, 9), st.integers(1, 4)), min_size=1, max_size=10),
        min_size=1,
        max_size=5,
    ),
    st.floats(0.5, 8.5),
)
def test_two_adjoining_windows_count_every_token_once(streams, boundary):
    requests = []
    for stream in streams:
        times = sorted(time for time, _ in stream)
        counts = np.cumsum([count for _, count in stream]).tolist()
        requests.append(request(0.0, list(zip(times, counts, strict=True))))
    total = sum(r.completion_tokens for r in requests)
    just_after = float(np.nextafter(boundary, 10))
    before = steady_metrics(requests, (-1.0, boundary)).tok_per_s * (boundary + 1)
    after = steady_metrics(requests, (just_after, 10.0)).tok_per_s * (10 - just_after)
    assert before + after == pytest.approx(total)


def test_acceptance_per_position_counts_steps_that_got_at_least_so_far():
    assert position_rates([2, 3, 0, 5]) == (0.8, 0.5, 0.5)
    assert position_rates([4, 0, 0]) == (0.0, 0.0)
    assert position_rates([]) == ()
    assert position_rates([0, 0]) == ()


def test_acceptance_is_weighted_by_steps_and_also_given_per_request():
    short = request(meta={"spec_verify_ct": 1, "spec_accept_histogram": [0, 1]}, arrivals=[(0.1, 2)])
    long = request(meta={"spec_verify_ct": 8, "spec_correct_drafts_histogram": [8]}, arrivals=[(0.1, 8)])
    both = acceptance([short, long])
    assert both.accept_length == pytest.approx(10 / 9)
    assert both.per_request.mean == pytest.approx(1.5)
    assert both.position_rates == pytest.approx((1 / 9,))
    assert both.verify_steps == 9


def test_without_speculation_there_is_no_acceptance_and_it_is_not_one():
    # SGLang 0.5.5 and 0.5.6 report spec_verify_ct 0 from a plain server.
    assert acceptance([request(meta={"spec_verify_ct": 0, "spec_accept_length": 0})]) is None
    assert request().accept_length is None


def test_a_failed_request_is_no_evidence_of_acceptance():
    bad = request(meta={"spec_verify_ct": 1}, failure=Failure(FailureKind.TOKEN_COUNT, "x"))
    assert acceptance([bad]) is None
