"""Which SGLang release sizes the KV pool how: one flag a change, with the release that brought it.

Every boundary was found by reading the published wheels 0.5.5 to 0.5.23, each of them. Up to 0.5.6 the code
stands in ``model_executor/model_runner.py``, from 0.5.7 in
``model_executor/model_runner_kv_cache_mixin.py``, from 0.5.11 also in
``model_executor/pool_configurator.py``, from 0.5.16 in ``mem_cache/kv_cache_configurator.py``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from sglgate.errors import MisuseError

OLDEST_READ = (0, 5, 5)
NEWEST_READ = (0, 5, 23)

Release = tuple[int, int, int]


class SwaRule(StrEnum):
    """How a sliding-window model's memory is split between its two pools."""

    BY_LAYER_COUNT = "by_layer_count"  # 0.5.5 to 0.5.8: all layers cost the same
    BY_LAYER_BYTES = "by_layer_bytes"  # 0.5.9, 0.5.10: after the token cap and the page alignment
    BY_BUDGET = "by_budget"  # 0.5.11 on: straight from the byte budget


class StateRule(StrEnum):
    """How the Mamba / linear-attention state is taken out of the budget."""

    PER_DRAFT_COPY = "per_draft_copy"  # 0.5.5, 0.5.6: a state is (1 + draft tokens) wide
    RESERVE_UNLESS_FIXED = "reserve_unless_fixed"  # 0.5.7, 0.5.8: verify copies only when slots are auto-sized
    RESERVE_FIRST = "reserve_first"  # 0.5.9 to 0.5.12: verify copies for max_running_requests first
    JOINT = "joint"  # 0.5.13 to 0.5.16: slots and verify copies solved together
    JOINT_PADDED = "joint_padded"  # 0.5.17 on: the same, padding slots counted


@dataclass(frozen=True)
class Rules:
    """The KV sizing rules of one SGLang release. Names say what is true of that release."""

    release: Release
    read_in: str
    """The release whose wheel these rules were read in."""
    extrapolated: bool
    """The asked release is older or newer than every wheel that was read."""
    windows_from_model: bool
    """<= 0.5.6: any model class that names a window (Gemma 2/3, GPT-OSS, OLMo 2) gets two pools."""
    swa_rule: SwaRule
    state_rule: StateRule
    spec_tokens_added: bool
    """<= 0.5.6: requests x (steps x topk + draft tokens) + 100 tokens are added on top of the profiled
    count."""
    rope_reserve: bool
    """>= 0.5.6: RoPE tables grow after ``Load weight end`` was logged and before the pool is sized."""
    fp4_in_gqa_cell: bool
    """>= 0.5.6: an fp4 KV dtype is known to the MHA/GQA cell."""
    half_tokens_cap_requests: bool
    """>= 0.5.10: the request slots themselves never exceed tokens // 2."""
    draft_counted: bool
    """>= 0.5.14: the draft's layers are in the cell and its weights load before the pool is sized."""
    draft_in_swa_cell: bool
    """>= 0.5.15: the draft's layers are in a sliding-window model's cell as well."""
    draft_windows_known: bool
    """>= 0.5.19: a draft's own sliding layers are charged to the sliding pool."""
    request_cap_swa: bool
    """>= 0.5.14: without radix cache and with max_running_requests, the sliding pool is sized by requests."""
    dsa_row_in_cell: bool
    """>= 0.5.17: a DSA model's fp8 row is charged at its true 656 bytes instead of 576."""
    dsa_skips_layers: bool
    """>= 0.5.18: layers that reuse another layer's top-k hold no index keys."""
    multimodal_reserve: bool
    """>= 0.5.18: multimodal models set memory aside before the pool is sized."""
    gc_before_sizing: bool
    """>= 0.5.19: garbage is collected before free memory is read."""
    fp4_recipes: bool
    """>= 0.5.21: fp4 is sized by recipe (nvfp4, fp4_mx_block16), with workspaces that depend on the
    backend."""


_RELEASE = re.compile(r"^v?(\d+)\.(\d+)\.(\d+)")


def parse_release(version: str) -> Release:
    """``"0.5.9"``, ``"v0.5.9.post1"``, ``"0.5.10rc0"`` -> ``(0, 5, 9)`` and so on.

    Raises:
        MisuseError: when the text does not begin with three numbers.
    """
    found = _RELEASE.match(version.strip())
    if found is None:
        raise MisuseError("not an SGLang release", key="sglang_version", value=version, expected='write it as "0.5.23"')
    return (int(found[1]), int(found[2]), int(found[3]))


def rules_for(version: str) -> Rules:
    """The sizing rules of a release; one outside the read range gets the nearest read one, marked
    ``extrapolated``."""
    asked = parse_release(version)
    release = min(max(asked, OLDEST_READ), NEWEST_READ)

    def since(patch: int) -> bool:
        return release >= (0, 5, patch)

    return Rules(
        release=release,
        read_in=".".join(map(str, release)),
        extrapolated=asked != release,
        windows_from_model=not since(7),
        swa_rule=(SwaRule.BY_BUDGET if since(11) else SwaRule.BY_LAYER_BYTES if since(9) else SwaRule.BY_LAYER_COUNT),
        state_rule=(
            StateRule.JOINT_PADDED
            if since(17)
            else StateRule.JOINT
            if since(13)
            else StateRule.RESERVE_FIRST
            if since(9)
            else StateRule.RESERVE_UNLESS_FIXED
            if since(7)
            else StateRule.PER_DRAFT_COPY
        ),
        spec_tokens_added=not since(7),
        rope_reserve=since(6),
        fp4_in_gqa_cell=since(6),
        half_tokens_cap_requests=since(10),
        draft_counted=since(14),
        draft_in_swa_cell=since(15),
        draft_windows_known=since(19),
        request_cap_swa=since(14),
        dsa_row_in_cell=since(17),
        dsa_skips_layers=since(18),
        multimodal_reserve=since(18),
        gc_before_sizing=since(19),
        fp4_recipes=since(21),
    )


def distinct_releases() -> tuple[str, ...]:
    """One release of every set of rules, oldest first: what to try when a log does not say its version."""
    seen: dict[tuple[object, ...], str] = {}
    for patch in range(OLDEST_READ[2], NEWEST_READ[2] + 1):
        rules = rules_for(f"0.5.{patch}")
        behaviour = tuple(
            value for name, value in sorted(vars(rules).items()) if name not in ("release", "read_in", "extrapolated")
        )
        seen.setdefault(behaviour, rules.read_in)
    return tuple(seen.values())
