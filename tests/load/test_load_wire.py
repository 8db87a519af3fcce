"""The parser gives the same events however the bytes are cut, and refuses what is no event stream."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglgate.load.wire import ResponseParser, WireError

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def parse(*reads: bytes) -> tuple[list[bytes], ResponseParser]:
    parser = ResponseParser()
    events = [event for read in reads for event in parser.feed(read)]
    return events, parser


def cut(data: bytes, at: list[int]) -> list[bytes]:
    marks = [0, *sorted({min(mark, len(data)) for mark in at}), len(data)]
    return [data[a:b] for a, b in pairwise(marks)]


texts = st.text(max_size=40)
payloads = st.lists(st.builds(lambda text: json.dumps({"text": text}).encode(), texts), min_size=1, max_size=8)


@settings(deadline=None)
@given(payloads, st.lists(st.integers(0, 2000), max_size=30), st.lists(st.integers(0, 1000), max_size=30))
def test_any_cut_of_the_same_bytes_gives_the_same_events(events, read_cuts, chunk_cuts):
    body = b"".join(b"data: %s\n\n" % event for event in events)
    pieces = [piece for piece in cut(body, chunk_cuts) if piece]
    got, parser = parse(*cut(HEAD + chunked(*pieces), read_cuts))
    assert got == events
    assert parser.done
    assert parser.keep_alive


@settings(deadline=None)
@given(payloads, st.sampled_from([b"\n", b"\r\n"]), st.lists(st.integers(0, 2000), max_size=30))
def test_both_line_ends_comments_and_other_fields_are_understood(events, eol, read_cuts):
    body = b": ping" + eol + eol
    for event in events:
        body += b"id: 7" + eol + b"event: token" + eol + b"data:" + event + eol + eol
    got, parser = parse(*cut(HEAD + chunked(body), read_cuts))
    assert got == events
    assert parser.done


@settings(deadline=None)
@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=10))
def test_arbitrary_bytes_give_events_or_a_wire_error_and_nothing_else(data, cuts):
    try:
        parse(HEAD, *cut(data, cuts))
    except WireError:
        return


@settings(deadline=None)
@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=10))
def test_a_verdict_on_garbage_does_not_depend_on_the_cut(data, cuts):
    def outcome(reads):
        try:
            events, parser = parse(*reads)
            parser.feed_eof()
        except WireError:
            return "refused"
        return events

    assert outcome([HEAD + data]) == outcome(cut(HEAD + data, cuts))


def test_several_data_lines_are_one_event():
    assert parse(HEAD + chunked(b"data: a\ndata: b\n\n"))[0] == [b"a\nb"]


def test_a_body_with_a_length_ends_by_it():
    body = b"data: {}\n\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(body)
    events, parser = parse(head, body)
    assert events == [b"{}"]
    assert parser.done


def test_a_body_without_a_length_ends_with_the_connection():
    _, parser = parse(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", b"data: {}\n\n")
    assert not parser.done
    parser.feed_eof()
    assert parser.done
    assert not parser.keep_alive


def test_an_error_answer_keeps_its_text():
    _, parser = parse(b"HTTP/1.1 503 Busy\r\nContent-Length: 5\r\n\r\nfull!")
    assert (parser.status, parser.body, parser.done) == (503, b"full!", True)


def test_an_interim_answer_is_passed_over():
    events, parser = parse(b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + chunked(b"data: {}\n\n"))
    assert events == [b"{}"]
    assert parser.status == 200


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"SSH-2.0-OpenSSH_9\r\n", "not an HTTP/1.1 response"),
        (b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", "malformed header"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", "compressed"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\n", "Content-Length"),
        (HEAD + b"0x1f\r\n", "malformed chunk size"),
        (HEAD + b"-5\r\n", "malformed chunk size"),
        (HEAD + b"3\r\nabcXX", "not followed by a line end"),
        (HEAD + b"a\r\ndata: {}\n\n\r\n0\r\n\r\nmore", "after the end"),
        (HEAD + chunked(b"datum: {}\n\n"), "malformed event line"),
        (HEAD + chunked(b"data: {}"), "ends inside an event"),
    ],
)
def test_what_is_no_event_stream_is_refused(data, says):
    with pytest.raises(WireError, match=says):
        parse(data)


@pytest.mark.parametrize("end", [0, 10, len(HEAD), len(HEAD) + 5])
def test_a_connection_that_closes_too_early_is_refused(end):
    parser = ResponseParser()
    parser.feed((HEAD + chunked(b"data: {}\n\n"))[:end])
    with pytest.raises(WireError, match="closed"):
        parser.feed_eof()
