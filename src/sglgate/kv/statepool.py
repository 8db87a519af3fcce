"""How much of the budget the request states of a hybrid model take, release by release.

Sources: ``handle_max_mamba_cache`` in 0.5.5 ``model_executor/model_runner.py``, 0.5.7, 0.5.9, 0.5.12 and
0.5.15 ``model_executor/model_runner_kv_cache_mixin.py``; ``_handle_max_mamba_cache`` in 0.5.16, 0.5.17,
0.5.18, 0.5.20 and 0.5.23 ``mem_cache/kv_cache_configurator.py``. Replay of verify states
(``--enable-linear-replayssm-spec``) is not modelled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sglgate.kv.cell import Split
from sglgate.kv.geometry import Geometry
from sglgate.kv.question import Question
from sglgate.kv.state import StateShape
from sglgate.kv.versions import Rules, StateRule

GIB = 1 << 30
SLOTS_PER_REQUEST = 3
"""State slots that a running request may hold with the radix cache on
(``MAMBA_CACHE_SIZE_MAX_RUNNING_REQUESTS_RATIO``)."""
_FIXED_SLOTS_WITHOUT_RADIX = 512
_MAMBA2_WITHOUT_RADIX = ("FalconH1", "NemotronH")


@dataclass(frozen=True)
class StatePool:
    """State slots, what they take, and what is left for KV. ``slots`` <= 0: SGLang refuses to start (or
    fails later)."""

    slots: int
    bytes_per_slot: int
    rest_gib: float
    slots_per_request: int


def take_state(geometry: Geometry, rest_gib: float, question: Question, rules: Rules, split: Split) -> StatePool:
    """Take the states out of ``rest_gib``; what remains is the KV budget.

    Raises:
        ValueError: the model keeps no state.
    """
    shape = geometry.state
    if shape is None:
        raise ValueError(f"{geometry.architecture} keeps no request state")
    if question.mamba_ssm_dtype is not None:
        shape = replace(shape, ssm_bytes=4 if question.mamba_ssm_dtype == "float32" else 2)
    per_slot = shape.bytes_per_request(split.attention_tp)
    rule = rules.state_rule
    if rule is StateRule.JOINT_PADDED and split.pp > 1:
        per_slot = int(per_slot * _largest_stage_share(shape, geometry.layer_count, split))
    draft_tokens = question.draft.num_draft_tokens if question.draft is not None else 0
    running = question.max_running_requests or (48 if draft_tokens else None)
    share = question.mamba_full_memory_ratio / (1 + question.mamba_full_memory_ratio)
    per_request = 1 if question.disable_radix_cache else SLOTS_PER_REQUEST + question.mamba_extra_slots
    asked = question.max_mamba_cache_size
    if asked is not None:
        fixed: int | None = asked // split.dp
    elif question.disable_radix_cache and running is not None:
        fixed = running // split.dp
    else:
        fixed = None
    if rule in (StateRule.PER_DRAFT_COPY, StateRule.RESERVE_UNLESS_FIXED) and question.disable_radix_cache:
        fixed = (asked or running or _FIXED_SLOTS_WITHOUT_RADIX) // split.dp

    if rule is StateRule.PER_DRAFT_COPY:
        wide = per_slot * (1 + draft_tokens)
        if not question.disable_radix_cache:
            fixed = None
        slots = fixed if fixed is not None else int(rest_gib * share * GIB // per_slot // (1 + draft_tokens))
        return StatePool(slots, wide, rest_gib - slots * wide / GIB, per_request)

    if rule in (StateRule.RESERVE_UNLESS_FIXED, StateRule.RESERVE_FIRST):
        requests = (running or 0) if rule is StateRule.RESERVE_UNLESS_FIXED else (running or 0) // split.dp
        if rule is StateRule.RESERVE_FIRST or fixed is None:
            rest_gib -= per_slot * requests * draft_tokens / GIB
        slots = fixed if fixed is not None else int(rest_gib * share * GIB // per_slot)
        return StatePool(slots, per_slot, rest_gib - slots * per_slot / GIB, per_request)

    padding = 1 if rule is StateRule.JOINT_PADDED else 0
    budget = rest_gib * share * GIB
    if fixed is not None:
        slots = fixed
    elif draft_tokens:
        slots = int((budget - padding * per_slot * (1 + draft_tokens)) // (per_slot * (1 + draft_tokens / per_request)))
    else:
        slots = int((budget - padding * per_slot) // per_slot)
    if draft_tokens:
        requests = min(max(padding, (running or 0) // split.dp), slots // per_request)
        if asked is None and question.disable_radix_cache:
            requests = slots
        rest_gib -= per_slot * (requests + padding) * draft_tokens / GIB
    return StatePool(slots, per_slot, rest_gib - (slots + padding) * per_slot / GIB, per_request)


def _largest_stage_share(shape: StateShape, layer_count: int, split: Split) -> float:
    held = [sum(first <= layer < end for layer in shape.layers) for first, end in split.stages(layer_count)]
    return max(held) / len(shape.layers)


def radix_is_off(architecture: str, question: Question, rules: Rules) -> bool:
    """Whether SGLang itself switches the radix cache off: up to 0.5.6 for Mamba-2 models
    (``ModelRunner.initialize``)."""
    forced = rules.state_rule is StateRule.PER_DRAFT_COPY and architecture.startswith(_MAMBA2_WITHOUT_RADIX)
    return question.disable_radix_cache or forced
