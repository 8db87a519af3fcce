"""Which phase of the launch a line belongs to: from the frames of its traceback, else from the rank's last mark."""

# A pattern that is broken over lines cannot be searched for.
# ruff: noqa: E501
from __future__ import annotations

import re
from typing import Final

from sglgate.diagnosis.model import Phase
from sglgate.logs import StartupRecord

# Innermost frame first; the first that matches decides. ``file:function``.
_FRAMES: Final = tuple(
    (re.compile(pattern), phase)
    for pattern, phase in (
        (r":(?:event_loop\w*|run_batch|process_batch_result\w*|forward_batch_\w+|forward_thread_func\w*|get_next_batch_to_run)$", Phase.SERVING),
        (r":(?:init_cuda_graphs?|init_device_graphs?|init_piecewise_cuda_graphs?|capture\w*|capture_one_\w+|kernel_warmup|"
         r"_kernel_warmup|init_attention_backends?|_dummy_run|capture_decode_graph|capture_prefill_graph|_capture\w*)$|"
         r"cuda_graph_(?:runner|setup)\.py:|graph_runner\.py:__init__", Phase.GRAPH_CAPTURE),
        (r":(?:init_memory_pool|alloc_memory_pool|profile_max_num_token|_init_pools|_create_buffers|_resolve_memory_pool_config|"
         r"profile_available_bytes|_profile_available_bytes|configure_kv_cache|init_memory_pools)$|memory_pool\.py:|"
         r"kv_cache_configurator\.py:|pool_configurator\.py:", Phase.KV_POOL),
        (r":(?:load_model|load_weights\w*|_load_weights\w*|get_model|_initialize_model|create_weights|process_weights_after_loading|"
         r"weight_loader\w*|load_draft_model\w*)$|model_loader/", Phase.WEIGHTS),
        (r":(?:init_torch_distributed|init_distributed_environment|initialize_model_parallel|init_process_group|init_model_parallel_group|"
         r"_init_parallel_groups|init_parallel|init_world_group|measure_pre_model_load_memory)$|distributed/bootstrap\.py:|pynccl\.py:__init__", Phase.DIST_INIT),
        (r"model_config\.py:|hf_transformers\w*(?:/\w+)?\.py:|configuration_auto\.py:|configuration_utils\.py:|huggingface_hub/|transformers/utils/hub\.py:|:get_config$|:get_tokenizer$|:get_processor$", Phase.CONFIG),
        (r"server_args\.py:|arg_groups/|argparse\.py:|:prepare_server_args$|:check_server_args$", Phase.ARGUMENTS),
        (r":_(?:execute_server_warmup|wait_and_warmup)$", Phase.WARMUP),
    )
)  # fmt: skip
_IMPORT: Final = re.compile(r":<module>$")

_FORWARD: Final = re.compile(r":(?:forward\w*|apply|get_image_feature|_call_impl)$")

_MARKS: Final = {
    "dist_init_begin": Phase.DIST_INIT,
    "dist_init_end": Phase.DIST_INIT,
    "weights_begin": Phase.WEIGHTS,
    "weights_end": Phase.KV_POOL,
    "kv": Phase.KV_POOL,
    "kv_end": Phase.GRAPH_CAPTURE,
    "graphs_begin": Phase.GRAPH_CAPTURE,
    "graphs_end": Phase.GRAPH_CAPTURE,
    "summary": Phase.WARMUP,
    "ready": Phase.SERVING,
}


def from_frames(frames: list[str], *, whole: bool = True) -> Phase | None:
    """The phase that a traceback tells, frames outermost first as ``path:function``; None where it tells none.

    Only a whole traceback that ends in a module's body tells of an import.
    """
    for frame in reversed(frames):
        for pattern, phase in _FRAMES:
            if pattern.search(frame):
                return phase
    return Phase.IMPORT if whole and frames and _IMPORT.search(frames[-1]) else None


def of(frames: list[str], record: StartupRecord, rank: str) -> Phase:
    """The phase by the frames, else by the marks; a model's forward pass under neither is one of a server that serves."""
    told = from_frames(frames)
    if told is not None:
        return told
    marked = from_marks(record, rank)
    early = marked in (Phase.START, Phase.CONFIG)
    return Phase.SERVING if early and any(_FORWARD.search(frame) for frame in frames) else marked


def from_marks(record: StartupRecord, rank: str) -> Phase:
    """The phase of ``rank`` by its last mark, of the furthest rank where it has none."""
    if record.ready:
        return Phase.SERVING
    own = record.ranks.get(rank)
    if own is not None and own.marks:
        return _MARKS[own.marks[-1].name]
    if record.http_up_line is not None:
        return Phase.WARMUP
    furthest = (
        max((r.marks[-1].line, r.marks[-1].name) for r in record.ranks.values() if r.marks)
        if any(r.marks for r in record.ranks.values())
        else None
    )
    if furthest is not None:
        return _MARKS[furthest[1]]
    return Phase.CONFIG if record.server_args is not None else Phase.START
