"""Bytes of KV cache per token and rank: what the sizing divides by, and what the pool then really stores.

The two differ where SGLang budgets one width and allocates another (a DSA model's fp8 row up to 0.5.16; a
draft whose heads are not its target's). Sources: 0.5.5 ``model_executor/model_runner.py``
``profile_max_num_token``; 0.5.9 ``model_executor/model_runner_kv_cache_mixin.py``
``get_cell_size_per_token`` and ``calculate_mla_kv_cache_dim``; 0.5.12, 0.5.15, 0.5.18, 0.5.20 and 0.5.23
``model_executor/pool_configurator.py`` ``_compute_cell_size``.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from sglgate.errors import MisuseError
from sglgate.kv.geometry import DTYPE_BYTES, Attention, Family, Geometry
from sglgate.kv.versions import Rules

FP8 = frozenset({"fp8_e4m3", "fp8_e5m2", "float8_e4m3fn", "float8_e5m2", "fp8"})
FP4 = frozenset({"fp4_e2m1", "nvfp4", "fp4_mx_block16", "float4_e2m1fn_x2", "fp4"})
PLAIN = {"bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32", "float": "float32"}
_FP4_BLOCK = 16
_MXFP8_BLOCK = 32
_INDEX_BLOCK = 128
KV_DTYPES = (
    "auto",
    "bfloat16",
    "float16",
    "float32",
    "fp8_e4m3",
    "fp8_e5m2",
    "mxfp8",
    "fp4_e2m1",
    "nvfp4",
    "fp4_mx_block16",
)


@dataclass(frozen=True)
class Split:
    """How a model lies over ranks. ``dp`` counts the attention groups of ``--enable-dp-attention`` (1
    without)."""

    tp: int = 1
    pp: int = 1
    dp: int = 1

    def __post_init__(self) -> None:
        for key, value in (("tp_size", self.tp), ("pp_size", self.pp), ("dp_attention", self.dp)):
            if value < 1:
                raise MisuseError("must be at least 1", key=key, value=value)
        if self.tp % self.dp:
            raise MisuseError(
                f"does not divide tp_size {self.tp}",
                key="dp_attention",
                value=self.dp,
                expected="the --dp of a server with --enable-dp-attention",
            )

    @property
    def attention_tp(self) -> int:
        """Ranks that share one copy of the KV heads (``attn_tp_size``)."""
        return self.tp // self.dp

    def stages(self, layer_count: int) -> tuple[tuple[int, int], ...]:
        """First and one-past-last layer of every pipeline stage; the last stages take the remainder.

        Source: ``distributed/utils.py`` ``get_pp_indices``, the same in 0.5.9 and 0.5.23.
        """
        base, extra = divmod(layer_count, self.pp)
        bounds = [0]
        for stage in range(self.pp):
            bounds.append(bounds[-1] + base + (stage >= self.pp - extra))
        return tuple(itertools.pairwise(bounds))


@dataclass(frozen=True)
class Cell:
    """Bytes per token on the fullest rank.

    ``sizing`` is what the budget is divided by, draft share included; it is a range only for fp4 recipes.
    ``row`` is what one slot of the (full) pool occupies, ``swa_row`` one slot of the sliding pool; 0 where
    there is none.
    """

    sizing: float
    sizing_max: float
    row: int
    swa_row: int
    swa_layers: int
    full_layers: int
    draft_share: int
    """The draft's part of ``sizing``."""
    row_min: int = 0
    """The narrowest row it may be where the backend is not known; 0: as ``row``."""


def resolve_kv_dtype(kv_cache_dtype: str, dtype: str, geometry: Geometry) -> tuple[str, tuple[str, ...]]:
    """The KV dtype that ``--kv-cache-dtype`` means for this model, and what to say about it.

    ``auto`` is FP8 where the checkpoint declares it, else the model's own dtype (a float32 checkpoint is
    served in 16 bits unless ``--dtype float32`` asks otherwise). Source: ``configure_kv_cache_dtype`` of
    0.5.9 and 0.5.23, ``_get_and_verify_dtype`` of ``configs/model_config.py``.

    Raises:
        MisuseError: an unknown dtype.
    """
    asked = PLAIN.get(kv_cache_dtype, kv_cache_dtype)
    if asked != "auto":
        if asked not in DTYPE_BYTES and asked not in FP8 and asked not in FP4 and asked != "mxfp8":
            raise MisuseError(
                "unknown KV dtype",
                key="kv_cache_dtype",
                value=kv_cache_dtype,
                expected=f"one of {', '.join(KV_DTYPES)}",
            )
        return asked, ()
    if geometry.kv_fp8_declared:
        return "fp8_e4m3", ("the checkpoint declares an FP8 KV cache, so kv_cache_dtype=auto means fp8_e4m3",)
    model = PLAIN.get(dtype, dtype)
    if model == "auto":
        model = geometry.dtype or "bfloat16"
        if model == "float32":
            return "float16", ("dtype=auto serves a float32 checkpoint in 16 bits",)
    if model not in DTYPE_BYTES:
        raise MisuseError(
            "unknown model dtype", key="dtype", value=dtype, expected="auto, bfloat16, float16 or float32"
        )
    return model, ()


def cell_for(
    geometry: Geometry,
    rules: Rules,
    split: Split,
    kv_dtype: str,
    *,
    draft_layers: int = 0,
    swa_ratio: float = 0.8,
    dsa_raw_rows: bool | None = None,
) -> Cell:
    """The cell of the stage that needs most per token: every stage then takes the token count of that one.

    Args:
        geometry: a modelled family.
        kv_dtype: as :func:`resolve_kv_dtype` returns it.
        draft_layers: KV layers of an EAGLE or STANDALONE draft; counted only where the release counts them.
        swa_ratio: ``--swa-full-tokens-ratio``.
        dsa_raw_rows: whether the attention backend reads a DSA model's fp8 rows without scales; None: either.
    """
    if not geometry.modelled:
        raise ValueError(geometry.declined)
    cells = [
        _stage_cell(geometry, rules, split, kv_dtype, draft_layers, swa_ratio, dsa_raw_rows, range(first, last))
        for first, last in split.stages(geometry.layer_count)
    ]
    return max(cells, key=lambda cell: cell.sizing)


def _stage_cell(
    geometry: Geometry,
    rules: Rules,
    split: Split,
    kv_dtype: str,
    draft_layers: int,
    swa_ratio: float,
    dsa_raw_rows: bool | None,
    stage: range,
) -> Cell:
    full = sum(i in stage for i in geometry.full_layers)
    sliding = sum(i in stage for i in geometry.swa_layers)
    tp = split.attention_tp
    counted = draft_layers if rules.draft_counted else 0
    if geometry.family is Family.SWA:
        return _swa_cell(geometry, rules, tp, kv_dtype, counted, swa_ratio, full, sliding)
    if geometry.latent_dim:
        index = _index_bytes(geometry, rules, stage)
        raw, scaled = (latent_bytes(geometry, kv_dtype, full, scaled=with_scales) for with_scales in (False, True))
        row = index + (raw if dsa_raw_rows else scaled)
        low = index + (scaled if rules.dsa_row_in_cell and dsa_raw_rows is False else raw)
        high = index + (scaled if rules.dsa_row_in_cell and not dsa_raw_rows else raw)
    else:
        attention = _needed(geometry.attention)
        row = gqa_bytes(attention, rules, tp, kv_dtype, full)
        low, high = row, row + _recipe_extra(attention, rules, tp, kv_dtype, full)
        index = 0
    share = _draft_share(geometry, rules, low, index, counted, full)
    high_share = _draft_share(geometry, rules, high, index, counted, full)
    narrow = min(row, int(low)) if geometry.latent_dim and dsa_raw_rows is None else row
    return Cell(low + share, high + high_share, row, 0, 0, full, share, narrow)


def gqa_bytes(attention: Attention, rules: Rules, tp: int, kv_dtype: str, layers: int) -> int:
    """K and V of ``layers`` layers of one token on one rank; fp4 adds a scale byte a block of 16, mxfp8 one
    of 32."""
    elements = attention.row_elements(tp)
    heads = max(1, attention.kv_heads // tp)
    if kv_dtype in FP4:
        if not rules.fp4_in_gqa_cell:
            raise MisuseError("fp4 is not sized for this family in 0.5.5", key="kv_cache_dtype", value=kv_dtype)
        return elements * layers // 2 + heads * attention.head_dim * layers * 2 // _FP4_BLOCK
    if kv_dtype == "mxfp8":
        return elements * layers + elements * layers // _MXFP8_BLOCK
    return elements * layers * element_bytes(kv_dtype)


def latent_bytes(geometry: Geometry, kv_dtype: str, layers: int, *, scaled: bool) -> int:
    """The latent rows of ``layers`` layers of one token. Not divided by TP: every rank keeps the whole row.

    A DSA model in fp8 stores ``kv_lora_rank + kv_lora_rank / 128 * 4 + 2 * rope`` bytes with ``scaled``
    rows and ``kv_lora_rank + rope`` with those that a trtllm backend reads; until 0.5.16 the budget counted
    the latter always.
    """
    if kv_dtype in FP4:
        return geometry.latent_dim * layers // 2 + geometry.latent_dim // _FP4_BLOCK * layers
    if geometry.family is Family.DSA and kv_dtype in FP8 and scaled:
        groups = geometry.kv_lora_rank // _INDEX_BLOCK
        return (geometry.kv_lora_rank + groups * 4 + 2 * geometry.rope_dim) * layers
    return geometry.latent_dim * layers * element_bytes(kv_dtype)


def element_bytes(kv_dtype: str) -> int:
    """Bytes of one KV element of a plain or fp8 dtype."""
    return 1 if kv_dtype in FP8 or kv_dtype == "mxfp8" else DTYPE_BYTES[kv_dtype]


def index_row_bytes(geometry: Geometry) -> int:
    """One index key of one layer: fp8 values and a float32 scale for each 128 of them."""
    return geometry.index_head_dim + geometry.index_head_dim // _INDEX_BLOCK * 4


def _index_bytes(geometry: Geometry, rules: Rules, stage: range) -> int:
    if geometry.family is not Family.DSA:
        return 0
    layers = geometry.index_layers if rules.dsa_skips_layers else geometry.full_layers
    return index_row_bytes(geometry) * sum(i in stage for i in layers)


def _recipe_extra(attention: Attention, rules: Rules, tp: int, kv_dtype: str, layers: int) -> int:
    # Since 0.5.21 an fp4 recipe may keep a second scale layout and a shared 16-bit workspace, as the
    # backend wishes.
    if kv_dtype not in FP4 or not rules.fp4_recipes:
        return 0
    heads = max(1, attention.kv_heads // tp)
    return heads * attention.head_dim * 2 * layers // _FP4_BLOCK + heads * attention.head_dim * 2 * 2


def _draft_share(geometry: Geometry, rules: Rules, cell: int, index: int, draft_layers: int, layers: int) -> int:
    if not draft_layers or not layers:
        return 0
    if geometry.family is Family.DSA and rules.dsa_skips_layers:
        return int((cell - index) * draft_layers / layers) + index_row_bytes(geometry) * draft_layers
    return int(cell * (1 + draft_layers / layers)) - cell


def _swa_cell(
    geometry: Geometry,
    rules: Rules,
    tp: int,
    kv_dtype: str,
    draft_layers: int,
    swa_ratio: float,
    full: int,
    sliding: int,
) -> Cell:
    wide, narrow = _needed(geometry.attention), _needed(geometry.swa_attention)
    full_layer = gqa_bytes(wide, rules, tp, kv_dtype, 1)
    swa_layer = gqa_bytes(narrow, rules, tp, kv_dtype, 1)
    draft = draft_layers * full_layer if rules.draft_in_swa_cell else 0
    sizing = full_layer * full + draft + swa_ratio * swa_layer * sliding if full else swa_layer * sliding + draft
    return Cell(sizing, sizing, full_layer * full, swa_layer * sliding, sliding, full, draft)


def _needed(attention: Attention | None) -> Attention:
    if attention is None:
        raise ValueError("the geometry names no attention heads")
    return attention
