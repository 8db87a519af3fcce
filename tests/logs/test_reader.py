"""The log reader: every wording of every release, whatever carries the log, in pieces of any size."""

# ruff: noqa: E501 - log lines are long
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglgate.logs import Kind, LogReader
from sglgate.logs.lines import split_records
from sglgate.logs.scanner import MAX_LINE_BYTES, LineScanner

KV_LINES = {
    "0.5.5": b"KV Cache is allocated. #tokens: 1000, K size: 1.25 GB, V size: 1.50 GB",
    "0.5.5-mla": b"KV Cache is allocated. #tokens: 1000, KV size: 2.75 GB",
    "0.5.15": b"KV Cache is allocated. dtype: torch.bfloat16, #tokens: 1000, K size: 1.25 GB, V size: 1.50 GB",
    "0.5.23-mla": b"KV Cache is allocated. dtype: torch.float8_e4m3fn, #tokens: 1000, KV size: 2.75 GB",
    "0.5.23-label": b"Full KV Cache is allocated. dtype: torch.bfloat16, #tokens: 1000, K size: 1.25 GB, V size: 1.50 GB",
    "0.5.23-post": b"Post-capture KV sizing: KV cache allocated. dtype: torch.bfloat16, #tokens: 1000, KV size: 2.75 GB, avail mem=3.00 GB",
}


def read(data: bytes, step: int = 1 << 20):
    reader = LogReader()
    events = [event for at in range(0, len(data), step) for event in reader.feed(data[at : at + step])]
    return events + reader.close(), reader.record


@pytest.mark.parametrize("wording", sorted(KV_LINES))
def test_every_wording_of_a_kv_line_gives_tokens_and_size(wording):
    _, record = read(b"[2026-01-01 00:00:00 TP3] " + KV_LINES[wording] + b"\n")
    (pool,) = record.ranks["TP3"].kv_pools
    assert (pool.tokens, pool.size_gib, pool.role) == (1000, 2.75, "target")
    assert record.unknown_formats == []


def test_a_kv_line_of_an_unknown_form_is_reported_and_not_guessed():
    events, record = read(b"[2026-01-01 00:00:00 TP3] KV Cache is allocated. tokens=1000 total 2.75 GB\n")
    assert record.ranks["TP3"].kv_pools == []
    assert [(u.kind, u.rank, u.line) for u in record.unknown_formats] == [("kv_pool", "TP3", 1)]
    assert [event.kind for event in events] == [Kind.UNKNOWN_FORMAT]


def test_the_draft_pool_is_told_from_the_target_pool_by_the_pool_end_between_them():
    kv, end = KV_LINES["0.5.5"], b"Memory pool end. avail mem=3.00 GB"
    log = b"".join(b"[2026-01-01 00:00:00 TP0] " + line + b"\n" for line in (kv, end, kv, end))
    _, record = read(log)
    assert [pool.role for pool in record.ranks["TP0"].kv_pools] == ["target", "draft"]


def test_the_two_pools_of_a_sliding_window_model_are_told_apart():
    lines = (
        b"Use sliding window memory pool. full_layer_tokens=1000, swa_layer_tokens=800",
        b"KV Cache is allocated. #tokens: 800, K size: 1.00 GB, V size: 1.00 GB",
        b"KV Cache is allocated. #tokens: 1000, K size: 1.00 GB, V size: 1.00 GB",
    )
    _, record = read(b"".join(b"[2026-01-01 00:00:00] " + line + b"\n" for line in lines))
    assert [pool.layers for pool in record.ranks[""].kv_pools] == ["swa", "full"]


@pytest.mark.parametrize(
    "line",
    [
        b"Capture cuda graph end. Time elapsed: 9.10 s. mem usage=1.40 GB. avail mem=12.40 GB.",
        b"Capture target verify CUDA graph end. bs=[1, 2], elapsed=9.10 s, mem usage=1.40 GB, avail mem=12.40 GB.",
        b"Capture draft extend CUDA graph end. step=0, elapsed=9.10 s, mem usage=1.40 GB, avail mem=12.40 GB.",
    ],
)
def test_the_end_of_a_capture_gives_its_cost_in_every_wording(line):
    _, record = read(b"[2026-01-01 00:00:00 TP1] " + line + b"\n")
    (capture,) = record.ranks["TP1"].graphs
    assert (capture.elapsed_s, capture.usage_gib, capture.end_avail_gib) == (9.1, 1.4, 12.4)


@pytest.mark.parametrize(
    ("dump", "tp"),
    [
        (
            b"server_args=ServerArgs(model_path='m', tp_size=8, load_format=<LoadFormat.AUTO: 'auto'>, f=<function g at 0x1>)",
            8,
        ),
        (b"server_args={'model_path': 'm', 'tp_size': 4, 'nested': {'a': [1, 2]}}", 4),
    ],
)
def test_the_resolved_arguments_are_read_in_both_dumps(dump, tp):
    _, record = read(b"[2026-01-01 00:00:00] " + dump + b"\n")
    assert record.server_args["tp_size"] == tp
    assert record.server_args["model_path"] == "m"


def test_a_cut_dump_of_arguments_is_an_unknown_format():
    _, record = read(b"[2026-01-01 00:00:00] server_args=ServerArgs(model_path='m', tp_si\n")
    assert record.server_args is None
    assert [item.kind for item in record.unknown_formats] == ["server_args"]


@pytest.mark.parametrize(
    "carrier",
    [
        b"sglang-1  | ",
        b"Mar 01 12:00:00 node python3[4711]: ",
        b"2026-03-01T12:00:00.123456789Z stdout F ",
        b"2026-03-01T12:00:00.123456789Z ",
        b"ERROR 2026-03-01T12:00:00.123456789Z ",
        b"[pod/sglang-0/server] ",
        b"(SGLangEngine pid=123, ip=10.0.0.1) ",
        b"\x1b[36m(Worker pid=1)\x1b[0m ",
    ],
)
def test_what_carried_the_line_does_not_hide_its_rank_or_its_message(carrier):
    line = carrier + b"[2026-01-01 00:00:00 DP1 TP3 EP3] Load weight begin. avail mem=93.80 GB"
    ((record,)) = [list(split_records(1, line, ""))]
    assert [(item.rank, item.text) for item in record] == [("DP1 TP3 EP3", "Load weight begin. avail mem=93.80 GB")]
    frame = carrier + b'  File "/x/sglang/srt/a.py", line 1, in f'
    assert [item.text.strip() for item in split_records(1, frame, "TP5")] == ['File "/x/sglang/srt/a.py", line 1, in f']


def test_a_record_behind_a_progress_bar_on_the_same_line_is_found():
    bar = b"\rCapturing batches (bs=8 avail_mem=4.90 GB):   0%|  | 0/2 [00:00<?, ?it/s]\rCapturing batches (bs=4 avail_mem=4.50 GB):  50%|# | 1/2 [00:00<?, ?it/s]"
    begin = (
        b"[2026-01-01 00:00:00 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=5.00 GB\n"
    )
    _, record = read(begin + bar + b"[2026-01-01 00:00:01 TP0] Registering 65 cuda graph addresses\n")
    rank = record.ranks["TP0"]
    assert (rank.graphs[0].last_size, rank.graphs[0].last_avail_gib, rank.graph_addresses) == (4, 4.5, 65)


def test_a_traceback_belongs_to_the_last_stamped_rank_even_over_dull_lines():
    scanner = LineScanner(["RuntimeError"])
    log = b"[2026-01-01 00:00:00 TP3] dull\nRuntimeError: a\n[2026-01-01 00:00:00 TP4] dull\nRuntimeError: b\n"
    assert [(line.rank, line.number) for line in scanner.feed(log)] == [("TP3", 2), ("TP4", 4)]


def test_digits_in_a_literal_are_not_lost_by_the_shapes():
    scanner = LineScanner(["exit code -9", "sm_120"])
    log = b"exit code -0\nexit code -9\nsm_90\nsm_120\n" * 2
    assert [line.text for line in scanner.feed(log)] == ["exit code -9", "sm_120"] * 2


def test_what_users_sent_is_not_read_as_the_server_speaking():
    scanner = LineScanner(["CUDA out of memory"])
    assert list(scanner.feed(b"[2026-01-01 00:00:00] Receive: obj=GenerateReqInput(text='CUDA out of memory')\n")) == []


def test_a_line_that_never_ends_does_not_fill_the_memory():
    scanner = LineScanner(["needle"])
    found = [line for _ in range(64) for line in scanner.feed(b"x" * (1 << 17))]
    found += list(scanner.feed(b" needle\n"))
    assert [line.number for line in found] == [1]
    assert len(found[0].text) <= MAX_LINE_BYTES + 16


def test_batch_lines_are_counted_alike_with_and_without_events():
    first = (
        b"[2026-01-01 00:00:00 TP0] Prefill batch, #new-seq: 1, #new-token: 7, #cached-token: 0, token usage: 0.00\n"
    )
    decode = b"[2026-01-01 00:00:00 TP0] Decode batch, #running-req: 1, #token: 4, token usage: 0.00, accept len: 2.50, accept rate: 0.6, block accept len: 9.00, cuda graph: True, gen throughput (token/s): 90.50, #queue-req: 0\n"
    odd = b"[2026-01-01 00:00:00 TP0] Decode batch, #running-req: 1, nothing else\n"
    for batch_events in (True, False):
        reader = LogReader(batch_events=batch_events)
        for piece in (first, decode * 3, odd, decode):
            reader.feed(piece)
        batches = reader.record.batches
        assert (batches.prefill, batches.decode, batches.unparsed) == (1, 4, 1)
        assert (batches.last_gen_tok_per_s, batches.mean_accept_len) == (90.5, 2.5)
        assert reader.record.first_batch_line == 1


def test_a_restart_after_a_failure_begins_a_new_record():
    args = b"[2026-01-01 00:00:00] server_args={'tp_size': %d}\n"
    _, record = read(args % 1 + b"[2026-01-01 00:00:00] Received sigquit from a child process.\n" + args % 2)
    assert record.server_args == {"tp_size": 2}


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=3000), st.integers(1, 700))
def test_any_bytes_in_any_pieces_give_the_same_events_and_no_exception(data, step):
    whole, record = read(data)
    pieces, again = read(data, step)
    assert [(e.kind, e.line, e.data) for e in whole] == [(e.kind, e.line, e.data) for e in pieces]
    assert (record.lines, record.bytes) == (again.lines, len(data))


def test_a_traceback_of_every_request_is_read_sparingly_but_the_last_words_count():
    from sglgate.diagnosis import diagnose_text

    start = b"[2026-01-01 00:00:00] The server is fired up and ready to roll!\n"
    frame = b'  File "/x/site-packages/sglang/srt/managers/scheduler.py", line 7, in event_loop_overlap\n'
    refused = b"Traceback (most recent call last):\n" + frame + b"ValueError: request %d is too long\n"
    noise = b"".join(refused % n for n in range(5000))
    died = b"[2026-01-02 00:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):\n" + frame
    oom = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.96 GiB.\n"
    healthy = diagnose_text(start + noise)
    assert (healthy.outcome, healthy.cause) == ("ready", "none")
    failed = diagnose_text(start + noise + died + oom)
    assert (failed.cause, failed.evidence[0].line) == ("runtime_oom", 15004)


def test_thousands_of_digits_are_no_number():
    _, record = read(b"[2026-01-01 00:00:00] KV Cache is allocated. #tokens: " + b"9" * 5000 + b", KV size: 2.75 GB\n")
    assert [item.kind for item in record.unknown_formats] == ["kv_pool"]


def test_a_batch_line_with_a_number_that_is_none_is_an_unknown_format():
    events, record = read(
        b"[2026-01-01 00:00:00] Decode batch, #running-req: 1, gen throughput (token/s): 1.2.3, #queue-req: 0\n"
    )
    assert [event.kind for event in events] == [Kind.UNKNOWN_FORMAT]
    assert record.batches.unparsed == 1
