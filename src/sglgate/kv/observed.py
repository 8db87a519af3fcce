"""What a log shows of a KV pool's making, gathered from the log reader's record: readings per rank and the
question they answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sglgate.errors import MisuseError
from sglgate.kv.budget import Interval
from sglgate.kv.geometry import Config, load_config
from sglgate.kv.question import Question, ask
from sglgate.logs import KvPool, LogReader, RankRecord, StartupRecord

HALF_CENT_GIB = 0.005
"""SGLang prints GiB with two decimals."""


@dataclass(frozen=True)
class PoolLine:
    """One pool as printed. ``size`` is an interval: K and V are rounded one by one."""

    role: str
    tokens: int
    size: Interval | None
    dtype: str | None


@dataclass(frozen=True)
class RankReadings:
    """One rank's readings, GiB as printed. None where the log does not show them."""

    rank: str
    pre_gib: float | None
    avail_gib: float | None
    """Free after the last weights that were loaded before the pool was sized."""
    target_weights_gib: float | None
    draft_weights_gib: float | None
    draft_before_sizing: bool
    pools: tuple[PoolLine, ...]
    state_gib: float
    state_slots: int | None
    graphs_gib: float
    left_gib: float | None
    custom_all_reduce: bool
    after_target_pool_gib: float | None = None
    """Free right after the target's pool was allocated ("Memory pool end")."""

    def pool(self, role: str) -> PoolLine | None:
        """The rank's target or draft pool; a hybrid's two pools are added up (tokens of the full one)."""
        found = [pool for pool in self.pools if pool.role == role]
        if not found:
            return None
        sizes = [pool.size for pool in found if pool.size is not None]
        total = (
            Interval(sum(s.low for s in sizes), sum(s.nominal for s in sizes), sum(s.high for s in sizes))
            if len(sizes) == len(found)
            else None
        )
        # The sliding pool is allocated first and is the smaller one; the full pool's count is the server's.
        return PoolLine(role, max(pool.tokens for pool in found), total, found[0].dtype)


@dataclass(frozen=True)
class Observed:
    """A whole start. ``arguments`` are the server's resolved ones ({} where the log does not show them)."""

    ranks: tuple[RankReadings, ...]
    arguments: Mapping[str, Any]
    version: str | None
    ready: bool
    max_total_num_tokens: int | None
    wording_of: str | None = None
    """The newest release whose wording this log has, where the log does not state its version."""

    @property
    def on_cpu(self) -> bool:
        """Whether the server ran on the CPU engine, whose free memory is the machine's."""
        return self.arguments.get("device") == "cpu"

    @property
    def fraction(self) -> float | None:
        """``mem_fraction_static`` as the server resolved it."""
        value = self.arguments.get("mem_fraction_static")
        return float(value) if isinstance(value, int | float) else None

    @property
    def page_size(self) -> int:
        """Page size of the server; 1 where it is not shown."""
        return int(self.arguments.get("page_size") or 1)

    def groups(self) -> dict[str, tuple[RankReadings, ...]]:
        """Ranks that size their pool together: all, or one replica of plain data parallelism each."""
        replicated = int(self.arguments.get("dp_size") or 1) > 1 and not self.arguments.get("enable_dp_attention")
        if not replicated:
            return {"": self.ranks}
        split: dict[str, list[RankReadings]] = {}
        for rank in self.ranks:
            split.setdefault(rank.rank.split(" ")[0] if rank.rank.startswith("DP") else "", []).append(rank)
        return {name: tuple(ranks) for name, ranks in split.items()}


_STATED = re.compile(r"minimum viable = 1 - available/pre = (?P<fraction>[\d.]+)")


def stated_minimum(log: Path) -> float | None:
    """The fraction that SGLang (0.5.14 on) names when it leaves no pool: its own ``1 - avail / pre``, four
    decimals."""
    with log.open(encoding="utf-8", errors="replace") as stream:
        found = (match for line in stream if (match := _STATED.search(line)) is not None)
        match = next(found, None)
    return None if match is None else float(match["fraction"])


def read_log(path: Path) -> StartupRecord:
    """Read a server log.

    Raises:
        MisuseError: the file cannot be read.
    """
    reader = LogReader(batch_events=False)
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                reader.feed(chunk)
    except OSError as error:
        raise MisuseError(f"cannot be read: {error.strerror or error}", file=path) from error
    reader.close()
    return reader.record


def observe(record: StartupRecord) -> Observed:
    """Gather what the pool was made from."""
    left = {summary.rank: summary.avail_gib for summary in record.summaries}
    ranks = tuple(
        _readings(rank, left.get(name)) for name, rank in sorted(record.ranks.items()) if rank.weights or rank.kv_pools
    )
    return Observed(
        ranks=ranks,
        arguments=record.server_args or {},
        version=record.sglang_version,
        ready=record.ready,
        max_total_num_tokens=record.summaries[0].max_total_num_tokens if record.summaries else None,
        wording_of=_wording_of(record),
    )


def question_of(
    observed: Observed, group: tuple[RankReadings, ...], config: Config, version: str | None = None
) -> Question:
    """The question that this start answered: its resolved arguments and the smallest readings of a group of
    ranks.

    Raises:
        MisuseError: the log shows no reading before or after the weights.
    """
    pre = [rank.pre_gib for rank in group if rank.pre_gib is not None]
    avail = [rank.avail_gib for rank in group if rank.avail_gib is not None]
    if not pre or not avail:
        raise MisuseError('the log shows no "Load weight begin" and "Load weight end" with free memory')
    args = observed.arguments
    target = next((pool for rank in group if (pool := rank.pool("target")) is not None), None)
    asked: dict[str, Any] = {
        "sglang_version": version or observed.version or observed.wording_of,
        "model_config": dict(config),
        "tp_size": int(args.get("tp_size") or 1),
        "pp_size": int(args.get("pp_size") or 1),
        "dp_attention": int(args.get("dp_size") or 1) if args.get("enable_dp_attention") else 1,
        "dtype": str(args.get("dtype") or "auto"),
        "kv_cache_dtype": _kv_dtype(args, target),
        "mem_fraction_static": observed.fraction,
        "pre_gib": min(pre),
        "avail_gib": min(avail),
        "rank_spread_gib": 0.0 if len(group) >= ranks_expected(args) else None,
        "page_size": observed.page_size,
        "max_total_tokens": args.get("max_total_tokens"),
        "device": "cpu" if args.get("device") == "cpu" else "cuda",
        "context_length": args.get("context_length"),
        "max_running_requests": args.get("max_running_requests"),
        "disable_radix_cache": bool(args.get("disable_radix_cache")),
        "max_mamba_cache_size": args.get("max_mamba_cache_size"),
        "mamba_ssm_dtype": args.get("mamba_ssm_dtype"),
        "dsa_raw_rows": _dsa_raw_rows(args),
        "observed_tokens": None if target is None else target.tokens,
    }
    for key in ("swa_full_tokens_ratio", "mamba_full_memory_ratio"):
        if args.get(key):
            asked[key] = args[key]
    if args.get("speculative_algorithm"):
        asked["speculative"] = {
            "algorithm": str(args["speculative_algorithm"]),
            "num_steps": int(args.get("speculative_num_steps") or 3),
            "eagle_topk": int(args.get("speculative_eagle_topk") or 1),
            "num_draft_tokens": int(args.get("speculative_num_draft_tokens") or 4),
        }
    return ask(asked)


def ranks_expected(args: Mapping[str, Any]) -> int:
    """Ranks that size their pool together by the server's arguments; 1 where they are not shown."""
    return int(args.get("tp_size") or 1) * int(args.get("pp_size") or 1)


def find_config(observed: Observed, given: str | Path | None) -> Config | None:
    """The model's configuration: the given one, or that of the model folder the log names, when it is on
    this machine."""
    if given is not None:
        return load_config(given)
    path = observed.arguments.get("model_path")
    if isinstance(path, str) and (Path(path) / "config.json").is_file():
        return load_config(path)
    return None


def _readings(rank: RankRecord, left_gib: float | None) -> RankReadings:
    first_pool = rank.kv_pools[0].line if rank.kv_pools else None
    before = [
        load
        for load in rank.weights
        if load.end_line is not None and (first_pool is None or load.end_line < first_pool)
    ]
    loads = [load for load in rank.weights if load.end_line is not None]
    if left_gib is None:
        ends = [graph.end_avail_gib for graph in rank.graphs if graph.end_avail_gib is not None]
        left_gib = ends[-1] if ends else (rank.pool_end_avail_gib[-1] if rank.pool_end_avail_gib else None)
    states = rank.mamba_pools
    return RankReadings(
        rank=rank.rank,
        pre_gib=rank.weights[0].begin_avail_gib if rank.weights else None,
        avail_gib=before[-1].end_avail_gib if before else None,
        target_weights_gib=loads[0].usage_gib if loads else None,
        draft_weights_gib=loads[1].usage_gib if len(loads) > 1 else None,
        draft_before_sizing=len(before) > 1,
        pools=tuple(_pool_line(pool) for pool in rank.kv_pools),
        state_gib=sum(
            pool.conv_gib + pool.ssm_gib + (pool.ssm_spec_gib or 0) + (pool.conv_spec_gib or 0) for pool in states
        ),
        state_slots=states[0].slots if states else None,
        graphs_gib=sum(graph.usage_gib or 0 for graph in rank.graphs),
        left_gib=left_gib,
        custom_all_reduce=rank.graph_addresses is not None,
        after_target_pool_gib=rank.pool_end_avail_gib[0] if rank.pool_end_avail_gib else None,
    )


def _dsa_raw_rows(args: Mapping[str, Any]) -> bool | None:
    backends = [args.get(f"{era}_{phase}_backend") for era in ("nsa", "dsa") for phase in ("prefill", "decode")]
    named = [str(backend) for backend in backends if backend not in (None, "None", "auto")]
    if "trtllm" in named or named == ["tilelang", "tilelang"]:
        return True
    return False if len(named) == 2 else None


def _wording_of(record: StartupRecord) -> str | None:
    loads = [load for rank in record.ranks.values() for load in rank.weights if load.end_line is not None]
    pools = [pool for rank in record.ranks.values() for pool in rank.kv_pools]
    if any(pool.dtype is not None for pool in pools):
        return None  # 0.5.15 and later word these lines alike
    if any(load.dtype is not None for load in loads):
        return "0.5.9"
    return "0.5.12" if loads and pools else None


def _pool_line(pool: KvPool) -> PoolLine:
    size = pool.size_gib
    half = HALF_CENT_GIB if pool.kv_gib is not None else 2 * HALF_CENT_GIB
    return PoolLine(
        pool.role, pool.tokens, None if size is None else Interval(size - half, size, size + half), pool.dtype
    )


def _kv_dtype(args: Mapping[str, Any], pool: PoolLine | None) -> str:
    asked = str(args.get("kv_cache_dtype") or "auto")
    if asked != "auto" or pool is None or pool.dtype is None:
        return asked
    names = {"float8_e4m3fn": "fp8_e4m3", "float8_e5m2": "fp8_e5m2"}
    printed = pool.dtype.removeprefix("torch.")
    return names.get(printed, printed)
