"""Where ``--mem-fraction-static`` lands when nobody sets it, by release and card.

Sources: 0.5.5, 0.5.6, 0.5.9, 0.5.10, 0.5.14, 0.5.17, 0.5.18 ``server_args.py``
``_handle_gpu_memory_settings`` and ``adjust_mem_fraction_for_vlm``; 0.5.19, 0.5.20, 0.5.23
``arg_groups/memory_hook.py``. NVIDIA cards only. DeepEP, prefill/decode disaggregation and post-capture
sizing (off by default) are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from sglgate.kv.geometry import Geometry
from sglgate.kv.question import Question
from sglgate.kv.versions import Rules

_FLOOR_MIB = 10 * 1024


@dataclass(frozen=True)
class Default:
    """The default fraction, without and with prefill CUDA graphs (SGLang decides that from the model and
    its backends)."""

    low: float
    high: float
    reserve_mib: float
    """What ``high`` keeps free."""
    why: str


def default_fraction(question: Question, rules: Rules, geometry: Geometry, config: Mapping[str, Any]) -> Default | None:
    """The default on this card, or None when the card's size is not known."""
    if question.gpu_total_mib is None:
        return None
    total = question.gpu_total_mib
    chunk, graph_bs = capacity_bin(total, question.tp_size, rules)
    chunk = question.chunked_prefill_size or chunk
    if question.cuda_graph_max_bs is not None:
        graph_bs = question.cuda_graph_max_bs
    elif question.max_running_requests is not None and rules.release >= (0, 5, 22):
        graph_bs = min(graph_bs, question.max_running_requests)
    unsaid = (False, True) if rules.release >= (0, 5, 10) else (False,)  # opt-in before
    graphs = unsaid if question.prefill_graphs is None else (question.prefill_graphs,)
    reserves = [_reserve_mib(question, rules, geometry, chunk, graph_bs, prefill) for prefill in graphs]
    factor = vision_factor(config) if geometry.multimodal else 1.0
    values = sorted(round((total - reserve) / total, 3) * factor for reserve in reserves)
    why = f"chunked prefill {chunk}, decode graphs up to {graph_bs}"
    return Default(values[0], values[-1], min(reserves), why + (", vision model" if geometry.multimodal else ""))


def capacity_bin(total_mib: float, tp_size: int, rules: Rules) -> tuple[int, int]:
    """Default chunked prefill size and largest decode graph of a card."""
    wide = tp_size >= 4
    if total_mib < 20 * 1024:
        return 2048, 8
    if total_mib < 35 * 1024:
        if rules.release >= (0, 5, 20):
            return 4096, 160 if wide else 48
        return 2048, 80 if wide else 24
    if total_mib < 60 * 1024:
        return 4096, 160 if wide else 32
    if total_mib < 160 * 1024:
        return 8192, 512 if wide else 256
    return 16384, 512


def prefill_graph_sizes(limit: int) -> int:
    """How many token counts the prefill graphs capture up to ``limit``."""
    sizes = chain(
        range(4, 33, 4),
        range(48, 257, 16),
        range(288, 513, 32),
        range(576, 1025, 64),
        range(1280, 4097, 256),
        range(4608, limit + 1, 512),
    )
    return sum(size <= limit for size in sizes)


def vision_factor(config: Mapping[str, Any]) -> float:
    """By how much a vision encoder lowers the default: 5 % and 10 % for every ViT-L above the first, within
    bounds."""
    vision = config.get("vision_config")
    if not isinstance(vision, Mapping):
        return 1.0
    layers, hidden = vision.get("num_hidden_layers", 24), vision.get("hidden_size", 1024)
    ratio = layers * hidden**2 / (24 * 1024**2)
    return float(0.95 * max(0.8, min(1.05, 1 - 0.1 * (ratio - 1))))


def _reserve_mib(
    question: Question, rules: Rules, geometry: Geometry, chunk: int, graph_bs: int, prefill_graphs: bool
) -> float:
    reserve = 512 + 1.5 * max(chunk, 2048) + 2 * graph_bs
    reserve += question.tp_size * question.pp_size / 8 * 1024
    dp = int(question.dp_attention)
    if dp > 1:
        reserve += 3 * graph_bs * dp + (1.5 * graph_bs * dp if graph_bs > 300 else 0)
    if prefill_graphs:
        if geometry.latent_dim and rules.release >= (0, 5, 10):
            reserve += 1.5 * 1024
        else:
            reserve += 8 * prefill_graph_sizes(min(8192, chunk) if geometry.latent_dim else chunk)
    if question.gpu_total_mib is not None and question.gpu_total_mib > 60 * 1024:
        reserve = max(reserve, _FLOOR_MIB)
    return reserve + _speculative_reserve_mib(question, rules)


def _speculative_reserve_mib(question: Question, rules: Rules) -> float:
    # Until 0.5.13 a draft was not counted in the pool, so the default (and only the default) left room for
    # it.
    if question.draft is None or rules.draft_counted:
        return 0
    algorithm = str(question.draft.algorithm).upper()
    if algorithm == "STANDALONE":
        return 6 * 1024
    if algorithm == "NGRAM":
        return 0
    return (4 if rules.release >= (0, 5, 10) else 2) * 1024
