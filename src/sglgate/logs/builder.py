"""Events into a :class:`StartupRecord`: the one place that knows what a line means for the record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, TypeVar

from sglgate.logs.formats import DECODE, Kind
from sglgate.logs.record import (
    AllReduceLine,
    Event,
    GraphCapture,
    KvPool,
    MambaPool,
    Mark,
    RankRecord,
    SlidingWindow,
    StartupRecord,
    Summary,
    UnknownFormat,
    WeightLoad,
)

_MAX_RANKS: Final = 1024
_MAX_ENTRIES: Final = 200
_MARKS: Final = {
    Kind.DIST_BEGIN: "dist_init_begin",
    Kind.DIST_END: "dist_init_end",
    Kind.WEIGHTS_BEGIN: "weights_begin",
    Kind.WEIGHTS_END: "weights_end",
    Kind.KV_POOL: "kv",
    Kind.KV_UPPER_BOUND: "kv",
    Kind.KV_UNIFIED: "kv",
    Kind.POOL_END: "kv_end",
    Kind.GRAPH_BEGIN: "graphs_begin",
    Kind.GRAPH_END: "graphs_end",
    Kind.SUMMARY: "summary",
    Kind.READY: "ready",
}

_RATE: Final = b"gen throughput (token/s): "

T = TypeVar("T")


class RecordBuilder:
    """Fills one record; a new ``server_args`` line after a failure starts the next launch's record."""

    def __init__(self) -> None:
        self.record = StartupRecord()
        self._handlers: dict[str, Callable[[Event, RankRecord], None]] = {
            Kind.SERVER_ARGS: self._server_args,
            Kind.VERSION: self._version,
            Kind.NCCL_VERSION: self._nccl_version,
            Kind.WEIGHTS_BEGIN: self._weights_begin,
            Kind.WEIGHTS_END: self._weights_end,
            Kind.KV_POOL: self._kv_pool,
            Kind.SWA_POOL: self._sliding_window,
            Kind.MAMBA_POOL: self._mamba_pool,
            Kind.POOL_END: self._pool_end,
            Kind.GRAPH_BEGIN: self._graph_begin,
            Kind.GRAPH_BATCHES: self._graph_batches,
            Kind.GRAPH_PROGRESS: self._graph_progress,
            Kind.GRAPH_END: self._graph_end,
            Kind.GRAPH_ADDRESSES: self._graph_addresses,
            Kind.ALLREDUCE: self._allreduce,
            Kind.SUMMARY: self._summary,
            Kind.HTTP_UP: self._http_up,
            Kind.READY: self._ready,
            Kind.RETRACTION: self._retraction,
            Kind.DECODE_BATCH: self._batch,
            Kind.PREFILL_BATCH: self._batch,
            Kind.FATAL: self._fatal,
            Kind.UNKNOWN_FORMAT: self._unknown,
        }

    def add(self, event: Event) -> None:
        """Enter one event."""
        if event.kind == Kind.SERVER_ARGS and self.record.fatal and self.record.server_args is not None:
            self.record = StartupRecord()
        rank = self._rank(event.rank)
        if name := _MARKS.get(Kind(event.kind)):
            _append(rank.marks, Mark(name, event.line, event.time, event.data.get("avail_gib")))
        if handler := self._handlers.get(event.kind):
            handler(event, rank)

    def add_batches(self, block: bytes, first_line: int) -> None:
        """Count the batch lines of a block; of its decode lines the last is read, for there are millions."""
        if (last := block.rfind(b" batch, #")) < 0:
            return
        batches = self.record.batches
        self.record.last_batch_line = first_line + block.count(b"\n", 0, last)
        batches.prefill += block.count(b"Prefill batch, #")
        with_rate = block.count(_RATE)
        batches.unparsed += max(0, block.count(b"Decode batch, #") - with_rate)
        if with_rate == 0:
            return
        start = block.rfind(b"Decode batch, #", 0, block.rfind(_RATE))
        line = block[start : block.find(b"\n", start) if block.find(b"\n", start) > 0 else len(block)]
        if match := DECODE.match(line):
            accept_len = match["accept_len"]
            self._count_decode(float(match["tok_per_s"]), float(accept_len) if accept_len else None)
            with_rate -= 1
        batches.decode += with_rate

    def _rank(self, name: str) -> RankRecord:
        ranks = self.record.ranks
        if name not in ranks:
            if len(ranks) >= _MAX_RANKS:
                return RankRecord(name)
            ranks[name] = RankRecord(name)
        return ranks[name]

    def _server_args(self, event: Event, rank: RankRecord) -> None:
        if self.record.server_args is None:
            self.record.server_args = event.data["server_args"]
            self.record.server_args_line = event.line

    def _version(self, event: Event, rank: RankRecord) -> None:
        self.record.sglang_version = self.record.sglang_version or event.data["value"]

    def _nccl_version(self, event: Event, rank: RankRecord) -> None:
        self.record.nccl_version = event.data["value"]

    def _weights_begin(self, event: Event, rank: RankRecord) -> None:
        _append(rank.weights, WeightLoad(event.line, event.data["avail_gib"]))

    def _weights_end(self, event: Event, rank: RankRecord) -> None:
        load = next((load for load in reversed(rank.weights) if load.end_line is None), None)
        if load is None:  # the log begins in the middle
            load = WeightLoad(event.line, None)
            _append(rank.weights, load)
        load.end_line = event.line
        load.end_avail_gib = event.data.get("avail_gib")
        load.usage_gib = event.data.get("usage_gib")
        load.elapsed_s = event.data.get("elapsed_s")
        load.model_type = event.data.get("model_type")
        load.dtype = event.data.get("dtype")
        load.quant = event.data.get("quant")

    def _kv_pool(self, event: Event, rank: RankRecord) -> None:
        data: dict[str, Any] = event.data
        index, label = len(rank.pool_end_avail_gib), data.get("label") or None
        role: Literal["target", "draft"] = "draft" if index or label == "draft" else "target"
        pool = KvPool(
            event.line,
            role,
            index,
            data["tokens"],
            data.get("k_gib"),
            data.get("v_gib"),
            data.get("kv_gib"),
            data.get("dtype"),
            label,
        )
        pool.layers = _layers(pool, rank)
        _append(rank.kv_pools, pool)

    def _sliding_window(self, event: Event, rank: RankRecord) -> None:
        window = SlidingWindow(event.line, event.data["swa_tokens"], event.data.get("full_tokens"))
        _append(rank.sliding_windows, window)

    def _mamba_pool(self, event: Event, rank: RankRecord) -> None:
        _append(rank.mamba_pools, MambaPool(event.line, **event.data))

    def _pool_end(self, event: Event, rank: RankRecord) -> None:
        _append(rank.pool_end_avail_gib, event.data["avail_gib"])

    def _graph_begin(self, event: Event, rank: RankRecord) -> None:
        name = event.data.get("name", "").strip() or "decode"
        if step := event.data.get("step"):
            name = f"{name} step {step}"
        _append(rank.graphs, GraphCapture(name, event.line, event.data.get("avail_gib")))

    def _graph_batches(self, event: Event, rank: RankRecord) -> None:
        if rank.graphs:
            rank.graphs[-1].batch_sizes = event.data["batch_sizes"]

    def _graph_progress(self, event: Event, rank: RankRecord) -> None:
        # A bar has no stamp: it is drawn by rank 0, whoever printed last.
        for candidate in (rank, *self.record.ranks.values()):
            if candidate.graphs and candidate.graphs[-1].end_line is None:
                candidate.graphs[-1].last_size = event.data["size"]
                candidate.graphs[-1].last_avail_gib = event.data["avail_gib"]
                return

    def _graph_end(self, event: Event, rank: RankRecord) -> None:
        capture = next((capture for capture in reversed(rank.graphs) if capture.end_line is None), None)
        if capture is None:
            capture = GraphCapture(event.data.get("name", "").strip() or "decode", event.line, None)
            _append(rank.graphs, capture)
        capture.end_line = event.line
        capture.end_avail_gib = event.data.get("avail_gib")
        capture.usage_gib = event.data.get("usage_gib")
        capture.elapsed_s = event.data.get("elapsed_s")
        capture.batch_sizes = event.data.get("batch_sizes") or capture.batch_sizes

    def _graph_addresses(self, event: Event, rank: RankRecord) -> None:
        rank.graph_addresses = event.data["count"]

    def _allreduce(self, event: Event, rank: RankRecord) -> None:
        data = event.data
        line = AllReduceLine(event.line, event.rank, data.get("path"), data.get("state"), data.get("reason", ""))
        _append(self.record.all_reduce, line)

    def _summary(self, event: Event, rank: RankRecord) -> None:
        _append(self.record.summaries, Summary(event.line, event.rank, **event.data))

    def _http_up(self, event: Event, rank: RankRecord) -> None:
        self.record.http_up_line = self.record.http_up_line or event.line

    def _ready(self, event: Event, rank: RankRecord) -> None:
        if self.record.ready_line is None:
            self.record.ready_line, self.record.ready_time = event.line, event.time

    def _retraction(self, event: Event, rank: RankRecord) -> None:
        self.record.retraction_lines += 1
        self.record.retracted_requests += event.data["requests"]

    def _batch(self, event: Event, rank: RankRecord) -> None:
        self.record.first_batch_line = self.record.first_batch_line or event.line
        self.record.last_batch_line = event.line
        if event.kind == Kind.PREFILL_BATCH:
            self.record.batches.prefill += 1
        else:
            self._count_decode(event.data["tok_per_s"], event.data.get("accept_len"))

    def _count_decode(self, tok_per_s: float, accept_len: float | None) -> None:
        batches = self.record.batches
        batches.decode += 1
        batches.last_gen_tok_per_s = tok_per_s
        if batches.max_gen_tok_per_s is None or tok_per_s > batches.max_gen_tok_per_s:
            batches.max_gen_tok_per_s = tok_per_s
        if accept_len is not None:
            batches.last_accept_len = accept_len
            batches.accept_len_sum += accept_len
            batches.accept_len_count += 1

    def _fatal(self, event: Event, rank: RankRecord) -> None:
        _append(self.record.fatal, event)

    def _unknown(self, event: Event, rank: RankRecord) -> None:
        if event.data["format"] in (Kind.DECODE_BATCH, Kind.PREFILL_BATCH):
            self.record.batches.unparsed += 1
        _append(
            self.record.unknown_formats,
            UnknownFormat(event.line, event.rank, event.data["format"], event.text),
        )


def _append(items: list[T], item: T) -> None:
    if len(items) < _MAX_ENTRIES:
        items.append(item)


def _layers(pool: KvPool, rank: RankRecord) -> Literal["full", "swa"] | None:
    """Full-attention or sliding layers: by the label of 0.5.18 and later, else by counts that differ."""
    if pool.label in ("Full", "SWA"):
        return "full" if pool.label == "Full" else "swa"
    if not rank.sliding_windows:
        return None
    window = rank.sliding_windows[-1]
    if window.full_tokens == window.swa_tokens:
        return None
    return {window.full_tokens: "full", window.swa_tokens: "swa"}.get(pool.tokens)  # type: ignore[return-value]
