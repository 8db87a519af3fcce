"""What SGLang prints while it starts and serves, as a table of alternatives by version.

Read in the wheels of 0.5.5, 0.5.6, 0.5.9, 0.5.12, 0.5.15, 0.5.18, 0.5.20 and 0.5.23; the file named at each entry is
where that wheel prints it. A line that has a format's ``core`` and matches none of its alternatives is an unknown format:
it is reported, never guessed. The figures that SGLang calls GB are GiB (bytes / 2**30).
"""

# A pattern that is broken over lines cannot be searched for.
# ruff: noqa: E501
from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sglgate.patterns import compiled


class Kind(StrEnum):
    """What a recognised line says. The value is the ``kind`` of its event."""

    SERVER_ARGS = "server_args"
    VERSION = "version"
    NCCL_VERSION = "nccl_version"
    DIST_BEGIN = "dist_begin"
    DIST_END = "dist_end"
    WEIGHTS_BEGIN = "weights_begin"
    WEIGHTS_PROGRESS = "weights_progress"
    WEIGHTS_END = "weights_end"
    KV_POOL = "kv_pool"
    KV_UPPER_BOUND = "kv_upper_bound"
    KV_UNIFIED = "kv_unified"
    SWA_POOL = "swa_pool"
    MAMBA_POOL = "mamba_pool"
    POOL_END = "pool_end"
    GRAPH_BEGIN = "graph_begin"
    GRAPH_BATCHES = "graph_batches"
    GRAPH_PROGRESS = "graph_progress"
    GRAPH_END = "graph_end"
    GRAPH_ADDRESSES = "graph_addresses"
    ALLREDUCE = "allreduce"
    SUMMARY = "summary"
    HTTP_UP = "http_up"
    READY = "ready"
    PREFILL_BATCH = "prefill_batch"
    DECODE_BATCH = "decode_batch"
    RETRACTION = "retraction"
    FATAL = "fatal"
    UNKNOWN_FORMAT = "unknown_format"


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of line.

    Attributes:
        kind: what it says.
        core: literals; a line with one of them is meant to be this kind.
        alternatives: (versions, pattern) tried in order; the named groups are the event's data.
        strict: True where a core without a match is an unknown format; False where the core also occurs elsewhere.
    """

    kind: Kind
    core: tuple[str, ...]
    alternatives: tuple[tuple[str, str], ...]
    strict: bool = True

    def parse(self, text: str) -> tuple[str, dict[str, str]] | None:
        """(versions, data) of the first alternative that matches, or None."""
        for versions, pattern in self.alternatives:
            if match := compiled(pattern).search(text):
                return versions, {key: value for key, value in match.groupdict().items() if value is not None}
        return None


def _format(kind: Kind, core: str | tuple[str, ...], *alternatives: tuple[str, str], strict: bool = True) -> Format:
    cores = (core,) if isinstance(core, str) else core
    return Format(kind, cores, alternatives, strict)


_N = r"-?\d+(?:\.\d+)?"
_AVAIL = rf"avail mem=(?P<avail_gib>{_N}) GB"
_USAGE = rf"mem usage=(?P<usage_gib>{_N}) GB"
_ELAPSED = rf"elapsed=(?P<elapsed_s>{_N}) s"
_ROLE = r"(?P<name>(?:[\w-]+ ){0,3}?)(?:cuda|CUDA|cpu|CPU|npu|NPU|xpu|XPU) graphs?"

FORMATS: Final[tuple[Format, ...]] = (
    # entrypoints/engine.py; a dataclass repr up to 0.5.18, a dict from 0.5.20.
    _format(
        Kind.SERVER_ARGS,
        "server_args=",
        ("0.5.5-0.5.18", r"^server_args=(?P<value>ServerArgs\(.*)"),
        ("0.5.20-0.5.23", r"^server_args=(?P<value>\{.*)"),
        strict=False,
    ),
    _format(
        Kind.VERSION,
        ("SGLang version", "sglang version", "sglang: 0.", "sglang==", "SGLang v", "sglang v0", "sglang-0."),
        (
            "any",
            r"(?i)\bsglang(?:[ -]version)?\s*(?:[:=]{1,2}|is|v|-)?\s*v?(?P<value>0\.\d+\.\d+(?:\.?(?:post|rc|dev)\d+)?)",
        ),
        strict=False,
    ),
    # distributed/device_communicators/pynccl.py
    _format(Kind.NCCL_VERSION, "sglang is using nccl==", ("0.5.5-0.5.23", r"nccl==(?P<value>[\d.]+)")),
    # model_executor/model_runner.py; distributed/bootstrap.py
    _format(Kind.DIST_BEGIN, "Init torch distributed begin", ("0.5.5-0.5.20", r"Init torch distributed begin")),
    _format(
        Kind.DIST_END,
        ("Init torch distributed ends", "Init parallel ends", "Memory baseline taken"),
        ("0.5.5-0.5.6", rf"Init torch distributed ends\. {_USAGE}"),
        ("0.5.9-0.5.20", rf"Init torch distributed ends\. {_ELAPSED}, {_USAGE}"),
        ("0.5.23", rf"Init parallel ends\. {_ELAPSED}"),
        ("0.5.23", rf"Memory baseline taken\. {_USAGE}"),
    ),
    # model_executor/model_runner.py; model_runner_components/startup_weight_load.py
    _format(Kind.WEIGHTS_BEGIN, "Load weight begin", ("0.5.5-0.5.23", rf"Load weight begin\. {_AVAIL}")),
    _format(
        Kind.WEIGHTS_PROGRESS,
        ("checkpoint shards:", "loading shards:"),
        ("any", r"shards:\s*(?P<percent>\d+)%[^|]*\|[^|]*?\|?\s*(?P<done>\d+)/(?P<total>\d+)"),
        strict=False,
    ),
    _format(
        Kind.WEIGHTS_END,
        "Load weight end",
        (
            "0.5.5-0.5.9",
            rf"Load weight end\. (?:{_ELAPSED}, )?type=(?P<model_type>\w+), dtype=(?P<dtype>[\w.]+), {_AVAIL}, {_USAGE}",
        ),
        (
            "0.5.12-0.5.23",
            rf"Load weight end\. (?:{_ELAPSED}, )?type=(?P<model_type>\w+), (?:(?P<quant>[^\n]*?), )?{_AVAIL}, {_USAGE}",
        ),
        (
            "0.5.18-0.5.23",
            rf"Load weight end\. Committed real weights after CUDA graph capture in (?P<elapsed_s>{_N}) s",
        ),
    ),
    # mem_cache/memory_pool.py; model_runner_components/kv_pool_runtime.py
    _format(
        Kind.KV_POOL,
        ("KV Cache is allocated", "KV cache allocated", "KV Cache skipped"),
        (
            "0.5.5-0.5.12",
            rf"(?P<label>(?:[\w-]+ )*)KV Cache is allocated\. #tokens: (?P<tokens>\d+), "
            rf"K size: (?P<k_gib>{_N}) GB, V size: (?P<v_gib>{_N}) GB",
        ),
        (
            "0.5.5-0.5.12",
            rf"(?P<label>(?:[\w-]+ )*)KV Cache is allocated\. #tokens: (?P<tokens>\d+), KV size: (?P<kv_gib>{_N}) GB",
        ),
        (
            "0.5.15-0.5.23",
            rf"(?P<label>(?:[\w-]+ )*)KV Cache is allocated\. dtype: (?P<dtype>[\w.]+), #tokens: (?P<tokens>\d+), "
            rf"K size: (?P<k_gib>{_N}) GB, V size: (?P<v_gib>{_N}) GB",
        ),
        (
            "0.5.15-0.5.23",
            rf"(?P<label>(?:[\w-]+ )*)KV Cache is allocated\. dtype: (?P<dtype>[\w.]+), #tokens: (?P<tokens>\d+), "
            rf"KV size: (?P<kv_gib>{_N}) GB",
        ),
        (
            "0.5.18-0.5.23",
            rf"Post-capture KV sizing: (?P<label>draft )?KV cache allocated\. dtype: (?P<dtype>[\w.]+), "
            rf"#tokens: (?P<tokens>\d+), KV size: (?P<kv_gib>{_N}) GB(?:, {_AVAIL})?",
        ),
        (
            "0.5.12-0.5.23",
            r"(?P<label>no-op )?KV Cache skipped \(no-op pool\)\. Logical #tokens: (?P<tokens>\d+)",
        ),
    ),
    _format(
        Kind.KV_UPPER_BOUND,
        "KV Cache VA upper bound",
        ("0.5.18-0.5.23", r"KV Cache VA upper bound\. dtype: (?P<dtype>[\w.]+), #tokens: (?P<tokens>\d+), "),
    ),
    # mem_cache/unified_memory_pool.py
    _format(
        Kind.KV_UNIFIED,
        "UnifiedKVPool ",
        (
            "0.5.18-0.5.23",
            rf"UnifiedKVPool (?P<state>allocated|reserved VA upper bound): total_bytes=(?P<total_gib>{_N}) GB "
            r"\(=(?P<total_bytes>\d+) B\), (?P<sub_pools>\d+) sub-pool",
        ),
        strict=False,
    ),
    # model_executor/model_runner_kv_cache_mixin.py (0.5.9); model_executor/pool_configurator.py
    _format(
        Kind.SWA_POOL,
        ("Use sliding window memory pool", "Post-capture KV sizing: full_layer_tokens"),
        (
            "0.5.5-0.5.23",
            r"(?:memory pool\.|KV sizing:) full_layer_tokens=(?P<full_tokens>\d+), swa_layer_tokens=(?P<swa_tokens>\d+)",
        ),
        ("0.5.9-0.5.23", r"memory pool \(all SWA\)\. swa_layer_tokens=(?P<swa_tokens>\d+)"),
    ),
    _format(
        Kind.MAMBA_POOL,
        "Mamba Cache is allocated",
        (
            "0.5.5-0.5.23",
            rf"Mamba Cache is allocated\. max_mamba_cache_size: (?P<slots>\d+), conv_state size: (?P<conv_gib>{_N})GB, "
            rf"ssm_state size: (?P<ssm_gib>{_N})GB\s*(?:intermediate_ssm_state_cache size: (?P<ssm_spec_gib>{_N})GB\s*"
            rf"intermediate_conv_window_cache size: (?P<conv_spec_gib>{_N})GB)?",
        ),
    ),
    _format(Kind.POOL_END, "Memory pool end", ("0.5.5-0.5.23", rf"Memory pool end\. {_AVAIL}")),
    # model_executor/model_runner.py, speculative/eagle_worker*.py; model_runner_components/cuda_graph_setup.py
    _format(
        Kind.GRAPH_BEGIN,
        ("graph begin", "graphs begin"),
        (
            "0.5.5-0.5.12",
            rf"Capture {_ROLE} begin(?: \(step (?P<step>\d+)\))?\.(?: This can take up to several minutes\.)? {_AVAIL}",
        ),
        (
            "0.5.15-0.5.23",
            rf"Capture {_ROLE} begin\. (?:backend=(?P<backend>[^,]+), )?(?P<detail>[^\n]*?){_AVAIL}",
        ),
        ("0.5.15-0.5.23", r"Capture (?P<name>Frozen-KV MTP draft )cuda graph begin\."),
    ),
    _format(
        Kind.GRAPH_BATCHES,
        ("Capture cuda graph bs", "Capture cpu graph bs", "Capture cuda graph num tokens"),
        ("0.5.5-0.5.23", r"Capture (?P<name>cuda|cpu) graph (?:bs|num tokens) \[(?P<batch_sizes>[\d, ]*)\]"),
    ),
    _format(
        Kind.GRAPH_PROGRESS,
        ("Capturing batches (", "Capturing num tokens (", "Capturing prefill shape ("),
        (
            "0.5.5-0.5.23",
            rf"(?s:.*)Capturing [\w ]+ \((?:bs|num_tokens)=(?P<size>\d+) avail_mem=(?P<avail_gib>{_N}) GB",
        ),
        strict=False,
    ),
    _format(
        Kind.GRAPH_END,
        ("graph end", "graphs end"),
        ("0.5.5-0.5.12", rf"Capture {_ROLE} end\. Time elapsed: (?P<elapsed_s>{_N}) s\. {_USAGE}\. {_AVAIL}"),
        (
            "0.5.15-0.5.23",
            rf"Capture {_ROLE} end\. (?:bs=\[(?P<batch_sizes>[\d, ]*)\], )?(?:step=\d+, )?"
            rf"(?:num_tokens=\[[\d, ]*\], )?{_ELAPSED}, {_USAGE}, {_AVAIL}",
        ),
        ("0.5.15-0.5.23", r"Capture (?P<name>Frozen-KV MTP draft )cuda graph end\."),
    ),
    # distributed/device_communicators/custom_all_reduce*.py
    _format(
        Kind.GRAPH_ADDRESSES,
        "cuda graph addresses",
        ("0.5.5-0.5.23", r"Registering (?P<count>\d+) cuda graph addresses"),
    ),
    _format(
        Kind.ALLREDUCE,
        (
            "llreduce is disabled",
            "llReduce is disabled",
            "llReduceV2 is disabled",
            "Setup Custom allreduce failed",
            "All Reduce config:",
            "[AR] ",
            "PCIe-IPC",
            "pcie_ipc",
            "SymmMemCommunicator",
            "llreduce fusion",
            "llReduce Fusion",
        ),
        (
            "0.5.5-0.5.23",
            r"(?P<path>Custom ?(?:quick )?[Aa]ll-?[Rr]educe(?:V2)?) is (?P<state>disabled) (?P<reason>(?:because|due to|based) [^\n]*)",
        ),
        ("0.5.5-0.5.23", r"Setup (?P<path>Custom allreduce) (?P<state>failed) with (?P<reason>[^\n]*)"),
        ("0.5.18-0.5.23", r"(?P<path>All Reduce) config: (?P<reason>symmetric_memory[^\n]*)"),
        ("0.5.12-0.5.23", r"\[AR\] (?P<reason>[^\n]*)"),
        (
            "0.5.23",
            r"FlashInfer (?P<path>PCIe-IPC) (?:all-reduce )?(?P<state>enabled|workspace built|skipped|autotuned)(?P<reason>[^\n]*)",
        ),
        (
            "0.5.5-0.5.23",
            r"(?P<reason>[^\n]*(?:PCIe-IPC|pcie_ipc|SymmMemCommunicator|ll[rR]educe [fF]usion)[^\n]*)",
        ),
        strict=False,
    ),
    # managers/scheduler.py
    _format(
        Kind.SUMMARY,
        "max_total_num_tokens=",
        (
            "0.5.5-0.5.23",
            r"^max_total_num_tokens=(?P<max_total_num_tokens>\d+), chunked_prefill_size=(?P<chunked_prefill_size>-?\d+|None), "
            r"max_prefill_tokens=(?P<max_prefill_tokens>\d+|None), max_running_requests=(?P<max_running_requests>\d+), "
            rf"context_len=(?P<context_len>\d+), available_[cg]pu_mem=(?P<avail_gib>{_N}) GB",
        ),
        strict=False,
    ),
    _format(
        Kind.HTTP_UP,
        ("Application startup complete", "Uvicorn running on"),
        ("any", r"Application startup complete|Uvicorn running on (?P<url>\S+)"),
    ),
    _format(Kind.READY, "The server is fired up", ("0.5.5-0.5.23", r"The server is fired up and ready to roll")),
    _format(
        Kind.RETRACTION,
        ("#retracted_reqs", "Retract requests"),
        ("0.5.5-0.5.23", r"Retract requests\. #retracted_reqs: (?P<requests>\d+)"),
        strict=False,
    ),
)

# Batch lines come by the million, so they have bytes patterns of their own.
# managers/scheduler_metrics_mixin.py (0.5.5 to 0.5.9); managers/scheduler_components/metrics_reporter.py
DECODE_CORE: Final = "Decode batch"
PREFILL_CORE: Final = "Prefill batch"
DECODE: Final = re.compile(
    rb"Decode batch(?: \[\d+\])?[,.] #running-req: (?P<running>\d+), [^\n]*?"
    rb"(?:accept len: (?P<accept_len>\d+(?:\.\d+)?), [^\n]*?)?gen throughput \(token/s\): (?P<tok_per_s>\d+(?:\.\d+)?)(?![\d.])"
)
PREFILL: Final = re.compile(
    rb"Prefill batch(?: \[\d+\])?[,.] #new-seq: (?P<new_seq>\d+), #new-token: (?P<new_tokens>\d+), "
    rb"#cached-token: (?P<cached_tokens>\d+)"
)
FATAL_CORES: Final[tuple[str, ...]] = (
    "Traceback (most recent call last)",
    "hit an exception",
    "Received sigquit",
    "SIGQUIT received",
    "Fatal Python error",
    "watchdog timeout",
    "Subprocess ",
    "Initialization failed",
    "terminate called",
    "Segmentation fault",
    "exit code:",
    "Killed",
    "core dumped",
)
