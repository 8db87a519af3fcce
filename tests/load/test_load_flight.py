"""What one request's events say, and what is refused."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglgate.load.flight import FailureKind, Flight, ServerReportedError, completion_tokens
from sglgate.load.wire import WireError


def event(count: int, *, ids=None, text="x", finish=None, **meta) -> bytes:
    info = {"id": "1", "finish_reason": finish, "completion_tokens": count, "cached_tokens": 0, **meta}
    ids = list(range(count)) if ids is None else ids
    return json.dumps({"text": text, "output_ids": ids, "meta_info": info}, separators=(",", ":")).encode()


def fly(*reads: list[bytes], expected: int | None = None) -> Flight:
    flight = Flight(0, 0, 0.0)
    for now, payloads in enumerate(reads, start=1):
        flight.accept(float(now), list(payloads))
    flight.finish(expected)
    return flight


DONE = b"[DONE]"
LENGTH = {"type": "length", "length": 4}


def test_tokens_are_counted_by_the_server_not_by_events():
    flight = fly([event(1)], [event(4)], [event(9, finish=LENGTH), DONE], expected=9)
    assert (flight.at, flight.upto) == ([1.0, 2.0, 3.0], [1, 4, 9])
    assert flight.failure is None


def test_events_of_one_read_share_their_time():
    flight = fly([event(1), event(2), event(3)], [event(4, finish=LENGTH), DONE], expected=4)
    assert (flight.at, flight.upto) == ([1.0, 2.0], [3, 4])


@settings(deadline=None)
@given(st.text(), st.integers(0, 10**6))
def test_no_text_can_pass_for_the_token_count(text, count):
    assert completion_tokens(event(count, ids=[], text=text + '"completion_tokens":7,' + text)) == count


@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":")])
def test_the_count_is_found_in_any_json_style_and_place(separators):
    value = {"meta_info": {"finish_reason": None, "completion_tokens": 5}}
    assert completion_tokens(json.dumps(value, separators=separators).encode()) == 5


def test_deltas_are_joined_into_the_whole_answer():
    flight = fly(
        [event(1, ids=[7], text="a")],
        [event(3, ids=[7, 7], text="bc")],
        [event(4, ids=[9], text="d", finish=LENGTH), DONE],
        expected=4,
    )
    assert flight.output_ids == (7, 7, 7, 9)
    assert flight.text == "abcd"


def test_cumulative_events_are_read_once():
    flight = fly([event(1, ids=[7], text="a")], [event(2, ids=[7, 8], text="ab", finish=LENGTH), DONE], expected=2)
    assert flight.output_ids == (7, 8)
    assert flight.text == "ab"


def test_an_answer_in_one_event_is_whole():
    assert fly([event(4, finish=LENGTH), DONE], expected=4).output_ids == (0, 1, 2, 3)


def test_fewer_tokens_than_asked_for_fail():
    failure = fly([event(3, finish=LENGTH), DONE], expected=4).failure
    assert failure is not None
    assert failure.kind is FailureKind.TOKEN_COUNT
    assert "3 tokens, asked for 4" in failure.detail


def test_more_tokens_than_asked_for_fail():
    assert fly([event(5, finish=LENGTH), DONE], expected=4).failure.kind is FailureKind.TOKEN_COUNT


def test_ids_that_do_not_match_the_count_fail():
    failure = fly([event(4, ids=[1, 2], finish=LENGTH), DONE], expected=4).failure
    assert failure.kind is FailureKind.TOKEN_COUNT


def test_an_abort_by_the_server_fails():
    abort = {"type": "abort", "message": "out of memory"}
    assert fly([event(4, finish=abort), DONE], expected=4).failure.kind is FailureKind.ABORTED


def test_without_an_expected_count_the_server_may_stop_by_itself():
    assert fly([event(3, finish={"type": "stop", "matched": 2}), DONE]).failure is None


@pytest.mark.parametrize(
    ("reads", "says"),
    [
        ([[event(2)], [event(1)]], "went back"),
        ([[b'{"text":"a'], []], "no JSON object"),
        ([[b"{}"], []], "without meta_info"),
        ([[b'{"meta_info":{}}'], []], "no completion_tokens"),
        ([[b'{"meta_info":{"completion_tokens":true}}'], []], "no completion_tokens"),
        ([[event(1, finish=LENGTH)]], "without .DONE"),
        ([[DONE]], "without an event"),
        ([[event(1), DONE]], "no finish_reason"),
        ([[event(1), DONE], [event(2)]], "after .DONE"),
    ],
)
def test_streams_that_break_the_protocol_are_refused(reads, says):
    with pytest.raises(WireError, match=says):
        fly(*reads)


def test_an_error_event_is_the_servers_own_word():
    with pytest.raises(ServerReportedError, match="out of pages"):
        fly([b'{"error":{"message":"out of pages"}}', DONE])
