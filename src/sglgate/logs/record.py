"""What a server log says about its start and its serving, per rank.

Every ``_gib`` is what SGLang prints as GB (bytes / 2**30, two decimals). A field that the log does not
state is None. The objects fill up while the log is read; treat them as read-only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(slots=True)
class Event:
    """One recognised line. ``data`` holds the numbers as numbers; ``versions`` says where it was read."""

    kind: str
    line: int
    rank: str
    time: str | None
    text: str
    data: dict[str, Any] = field(default_factory=dict)
    versions: str = ""


@dataclass(slots=True)
class Mark:
    """A phase passed by a rank: ``dist_init_begin``, ``weights_end``, ``kv_end``, ``ready`` and so on."""

    name: str
    line: int
    time: str | None
    avail_gib: float | None = None


@dataclass(slots=True)
class WeightLoad:
    """One ``Load weight`` pair of a rank; ``end_line`` is None while it loads or where it failed."""

    begin_line: int
    begin_avail_gib: float | None
    end_line: int | None = None
    end_avail_gib: float | None = None
    usage_gib: float | None = None
    elapsed_s: float | None = None
    model_type: str | None = None
    dtype: str | None = None
    quant: str | None = None


@dataclass(slots=True)
class KvPool:
    """One ``KV Cache is allocated`` line.

    ``pool_index`` counts the ``Memory pool end`` lines before it on its rank: 0 is the target's, later ones
    the draft's.
    ``role`` follows from it, or from a label where the wording has one.
    ``layers`` tells a hybrid's two pools apart by their token counts, where these differ.
    """

    line: int
    role: Literal["target", "draft"]
    pool_index: int
    tokens: int
    k_gib: float | None = None
    v_gib: float | None = None
    kv_gib: float | None = None
    dtype: str | None = None
    label: str | None = None
    layers: Literal["full", "swa"] | None = None

    @property
    def size_gib(self) -> float | None:
        """K and V together, as printed; None where the pool is a placeholder."""
        if self.kv_gib is not None:
            return self.kv_gib
        return None if self.k_gib is None or self.v_gib is None else self.k_gib + self.v_gib


@dataclass(slots=True)
class MambaPool:
    """One ``Mamba Cache is allocated`` line; the ``spec`` sizes exist under speculation only."""

    line: int
    slots: int
    conv_gib: float
    ssm_gib: float
    ssm_spec_gib: float | None = None
    conv_spec_gib: float | None = None


@dataclass(slots=True)
class SlidingWindow:
    """The two token counts of a sliding-window pool; ``full_tokens`` is None where all layers slide."""

    line: int
    swa_tokens: int
    full_tokens: int | None = None


@dataclass(slots=True)
class GraphCapture:
    """One capture: ``name`` is ``decode`` for the plain one, else ``piecewise``, ``target verify`` ..."""

    name: str
    begin_line: int
    begin_avail_gib: float | None
    batch_sizes: tuple[int, ...] = ()
    last_size: int | None = None
    last_avail_gib: float | None = None
    end_line: int | None = None
    end_avail_gib: float | None = None
    usage_gib: float | None = None
    elapsed_s: float | None = None


@dataclass(slots=True)
class RankRecord:
    """One rank's start."""

    rank: str
    marks: list[Mark] = field(default_factory=list)
    weights: list[WeightLoad] = field(default_factory=list)
    kv_pools: list[KvPool] = field(default_factory=list)
    mamba_pools: list[MambaPool] = field(default_factory=list)
    sliding_windows: list[SlidingWindow] = field(default_factory=list)
    pool_end_avail_gib: list[float] = field(default_factory=list)
    graphs: list[GraphCapture] = field(default_factory=list)
    graph_addresses: int | None = None

    @property
    def phase(self) -> str:
        """Name of the last mark, ``"start"`` before any."""
        return self.marks[-1].name if self.marks else "start"

    def avail_gib_at(self, name: str) -> float | None:
        """Free memory printed at the first mark of that name."""
        return next((mark.avail_gib for mark in self.marks if mark.name == name), None)


@dataclass(slots=True)
class Summary:
    """The scheduler's line with the capacity; one for each DP rank."""

    line: int
    rank: str
    max_total_num_tokens: int
    chunked_prefill_size: int | None
    max_prefill_tokens: int | None
    max_running_requests: int
    context_len: int
    avail_gib: float


@dataclass(slots=True)
class AllReduceLine:
    """What a rank said about an all-reduce path; ``state`` is ``disabled``, ``enabled`` ... or None."""

    line: int
    rank: str
    path: str | None
    state: str | None
    reason: str


@dataclass(slots=True)
class UnknownFormat:
    """A line that has the core of ``kind`` and none of its known forms."""

    line: int
    rank: str
    kind: str
    text: str


@dataclass(slots=True)
class BatchStats:
    """Batch lines, counted; throughput as the server prints it (tokens/s over the last interval).

    A reader with ``batch_events=False`` counts every line, but reads the figures of one decode line a block
    (about a mebibyte): maximum and mean are then of that sample.
    """

    prefill: int = 0
    decode: int = 0
    unparsed: int = 0
    last_gen_tok_per_s: float | None = None
    max_gen_tok_per_s: float | None = None
    last_accept_len: float | None = None
    accept_len_sum: float = 0.0
    accept_len_count: int = 0

    @property
    def mean_accept_len(self) -> float | None:
        """Mean of the printed acceptance lengths; None where none was printed."""
        return self.accept_len_sum / self.accept_len_count if self.accept_len_count else None


@dataclass(slots=True)
class StartupRecord:
    """Everything the reader recognised; ``ranks`` is keyed by the printed rank, ``""`` where none is."""

    server_args: dict[str, Any] | None = None
    server_args_line: int | None = None
    sglang_version: str | None = None
    nccl_version: str | None = None
    ranks: dict[str, RankRecord] = field(default_factory=dict)
    summaries: list[Summary] = field(default_factory=list)
    all_reduce: list[AllReduceLine] = field(default_factory=list)
    http_up_line: int | None = None
    ready_line: int | None = None
    ready_time: str | None = None
    first_batch_line: int | None = None
    last_batch_line: int | None = None
    batches: BatchStats = field(default_factory=BatchStats)
    retraction_lines: int = 0
    retracted_requests: int = 0
    fatal: list[Event] = field(default_factory=list)
    unknown_formats: list[UnknownFormat] = field(default_factory=list)
    lines: int = 0
    bytes: int = 0

    @property
    def ready(self) -> bool:
        """Whether the server said that it is fired up."""
        return self.ready_line is not None

    @property
    def speculative(self) -> bool | None:
        """From the resolved arguments; None where the log does not show them."""
        if self.server_args is None:
            return None
        return self.server_args.get("speculative_algorithm") not in (None, "None")
