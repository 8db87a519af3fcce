"""What a model's ``config.json`` says about its KV cache: the family, the layers, the widths. Pure data.

Follows SGLang's own reading of the file: ``configs/model_config.py`` (``_derive_model_shapes``,
``get_total_num_kv_heads``, ``is_hybrid_swa_model``, ``get_hybrid_layer_ids``) and
``utils/hf_transformers/common.py`` (``get_hf_text_config``), compared in the wheels 0.5.5, 0.5.9, 0.5.12,
0.5.15, 0.5.18, 0.5.20 and 0.5.23. A family that is not modelled here is returned as
:attr:`Family.UNMODELLED` with its reason: nothing is guessed from a name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from sglgate.errors import MisuseError
from sglgate.kv import families
from sglgate.kv.state import StateShape, read_state_shape
from sglgate.kv.versions import Rules

Config = Mapping[str, Any]

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float": 4, "half": 2}


class Family(StrEnum):
    """How SGLang lays out the KV cache of a model."""

    GQA = "gqa"  # MHA and GQA: K and V of every KV head
    MLA = "mla"  # one latent row a layer, the same on every TP rank
    DSA = "dsa"  # MLA plus the index keys of DeepSeek sparse attention (NSA in older releases)
    SWA = "swa"  # two pools: full-attention layers and sliding-window layers
    LINEAR = "linear"  # attention in some layers, a fixed state a request in the others
    UNMODELLED = "unmodelled"


@dataclass(frozen=True)
class Attention:
    """The width of one layer's KV row, before any split over ranks."""

    kv_heads: int
    head_dim: int
    v_head_dim: int

    def row_elements(self, tp: int) -> int:
        """Elements of K and V of one token in one layer on one of ``tp`` ranks; a rank keeps at least one
        head."""
        return max(1, self.kv_heads // tp) * (self.head_dim + self.v_head_dim)


@dataclass(frozen=True)
class Geometry:
    """What the KV cache of a model is made of. ``layers`` are ids, so that a pipeline stage can take its
    share."""

    architecture: str
    family: Family
    layer_count: int
    full_layers: tuple[int, ...] = ()
    """Layers whose KV grows with the whole context."""
    swa_layers: tuple[int, ...] = ()
    """Layers in the sliding pool (only when SGLang gives them one)."""
    attention: Attention | None = None
    swa_attention: Attention | None = None
    latent_dim: int = 0
    """MLA: kv_lora_rank + qk_rope_head_dim."""
    kv_lora_rank: int = 0
    rope_dim: int = 0
    index_head_dim: int = 0
    """DSA: width of an index key; 0 without."""
    index_layers: tuple[int, ...] = ()
    """DSA: layers that compute their own index keys."""
    state: StateShape | None = None
    window: int | None = None
    context_length: int | None = None
    rope_rotary_dim: int = 0
    rope_rows: int = 0
    """Rows of the RoPE table before it is grown; 0 when not known."""
    dtype: str | None = None
    kv_fp8_declared: bool = False
    """The checkpoint declares an FP8 KV cache, which ``auto`` then takes."""
    multimodal: bool = False
    declined: str = ""
    """Why the family is not modelled, in one sentence."""
    notes: tuple[str, ...] = field(default=())

    @property
    def modelled(self) -> bool:
        """False when a prediction would be a guess."""
        return self.family is not Family.UNMODELLED


def load_config(source: Config | str | Path) -> Config:
    """The mapping itself, or the ``config.json`` at (or inside the folder at) a path.

    Raises:
        MisuseError: no such file, or not a JSON object.
    """
    if isinstance(source, Mapping):
        return source
    path = Path(source)
    if path.is_dir():
        path = path / "config.json"
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MisuseError(
            f"cannot be read: {error.strerror or error}",
            file=path,
            key="model_config",
            expected="give a Hugging Face config.json, its folder, or the JSON object itself",
        ) from error
    except ValueError as error:
        raise MisuseError(f"is not JSON: {error}", file=path, key="model_config") from error
    if not isinstance(loaded, dict):
        raise MisuseError("must be a JSON object", file=path, key="model_config", value=type(loaded).__name__)
    return loaded


def text_config(config: Config) -> Config:
    """The language model's part of a configuration, in SGLang's order of preference."""
    thinker = config.get("thinker_config")
    if isinstance(thinker, Mapping):
        inner = thinker.get("text_config")
        return inner if isinstance(inner, Mapping) else thinker
    for key in ("llm_config", "language_config", "text_config"):
        inner = config.get(key)
        if isinstance(inner, Mapping):
            return inner
    return config


def read_geometry(config: Config, rules: Rules) -> Geometry:
    """Read a Hugging Face configuration under the rules of one SGLang release.

    Raises:
        MisuseError: the file lacks a number that its family cannot do without.
    """
    architectures = config.get("architectures") or ()
    if not isinstance(architectures, Sequence) or isinstance(architectures, str) or not architectures:
        raise MisuseError(
            "must name the model class",
            key="model_config.architectures",
            value=config.get("architectures"),
            expected='for example ["LlamaForCausalLM"]',
        )
    architecture = str(architectures[0])
    text = families.normalised(architecture, text_config(config))
    layer_count = _layer_count(architecture, text)
    reason = families.why_unmodelled(architecture, text, rules)
    if reason:
        return Geometry(architecture, Family.UNMODELLED, layer_count, declined=reason)

    common: dict[str, Any] = {
        "architecture": architecture,
        "layer_count": layer_count,
        "context_length": families.context_length(text),
        "dtype": _dtype(config, text),
        "kv_fp8_declared": families.declares_fp8_kv(config, text),
        "multimodal": any(key.startswith(("vision", "audio")) and config.get(key) for key in config),
    }
    layers = tuple(range(layer_count))
    if architecture in families.LINEAR_ARCHITECTURES:
        return _linear(architecture, text, common)
    if architecture in families.MLA_ARCHITECTURES and text.get("kv_lora_rank") is not None:
        return _latent(architecture, text, layers, common)
    attention, swa_attention = _attention(text)
    common |= families.rope_table(text, attention.head_dim)
    swa = families.sliding_layers(architecture, text, layer_count, rules)
    if swa is not None:
        sliding, full = swa
        if sliding:
            return Geometry(
                family=Family.SWA,
                full_layers=full,
                swa_layers=sliding,
                attention=attention,
                swa_attention=swa_attention,
                window=text.get("sliding_window"),
                **common,
            )
    notes: tuple[str, ...] = ()
    if text.get("sliding_window") and families.uses_window(text):
        notes = (
            f"{architecture} has sliding-window layers, but this release keeps their KV "
            "for the whole context (one pool)",
        )
    if architecture == "Llama4ForConditionalGeneration":
        notes += ("one pool, as without --hybrid-kvcache-ratio; the two pools of that flag are not modelled",)
    return Geometry(family=Family.GQA, full_layers=layers, attention=attention, notes=notes, **common)


def draft_layer_count(config: Config) -> int:
    """KV layers of a speculative draft: the next-token-prediction layers where declared, else all its layers.

    Source: 0.5.14 ``model_executor/model_runner.py`` (``eagle_draft_num_layers``); 0.5.23
    ``model_runner_components/spec_aux_hidden_state.py``.
    """
    text = text_config(config)
    declared = text.get("num_nextn_predict_layers")
    return int(declared) if declared is not None else _required_int(text, "num_hidden_layers")


def _layer_count(architecture: str, text: Config) -> int:
    if architecture.startswith("NemotronH"):
        return len(families.nemotron_blocks(text))
    count = _required_int(text, "num_hidden_layers")
    if architecture == "LongcatFlashForCausalLM":
        return 2 * count
    return count * int(text.get("loop_num") or text.get("num_loops") or 1)


def _latent(architecture: str, text: Config, layers: tuple[int, ...], common: dict[str, Any]) -> Geometry:
    rank, rope = _required_int(text, "kv_lora_rank"), _required_int(text, "qk_rope_head_dim")
    sparse = architecture in families.DSA_ARCHITECTURES and text.get("index_topk") is not None
    return Geometry(
        family=Family.DSA if sparse else Family.MLA,
        full_layers=layers,
        latent_dim=rank + rope,
        kv_lora_rank=rank,
        rope_dim=rope,
        index_head_dim=_required_int(text, "index_head_dim") if sparse else 0,
        index_layers=tuple(i for i in layers if not families.reuses_topk(text, i)) if sparse else (),
        **common,
        **families.rope_table(text, rope),
    )


def _linear(architecture: str, text: Config, common: dict[str, Any]) -> Geometry:
    full, state = read_state_shape(architecture, text)
    if architecture in families.MLA_ARCHITECTURES:
        rank, rope = _required_int(text, "kv_lora_rank"), _required_int(text, "qk_rope_head_dim")
        return Geometry(
            family=Family.LINEAR,
            full_layers=full,
            latent_dim=rank + rope,
            kv_lora_rank=rank,
            rope_dim=rope,
            state=state,
            **common,
        )
    attention, _ = _attention(text)
    return Geometry(
        family=Family.LINEAR,
        full_layers=full,
        attention=attention,
        state=state,
        **common,
        **families.rope_table(text, attention.head_dim),
    )


def _attention(text: Config) -> tuple[Attention, Attention]:
    heads = _required_int(text, "num_attention_heads")
    head_dim = int(text.get("head_dim") or _required_int(text, "hidden_size") // heads)
    v_head_dim = int(text.get("v_head_dim") or head_dim)
    kv_heads = families.total_kv_heads(text, heads)
    swa_head_dim = int(text.get("swa_head_dim") or head_dim)
    swa_v = int(text.get("swa_v_head_dim") or (v_head_dim if text.get("swa_head_dim") is None else swa_head_dim))
    other = text.get("attention_other_setting")
    swa_heads = text.get("swa_num_key_value_heads") or (
        other.get("num_attention_groups") if isinstance(other, Mapping) else None
    )
    return Attention(kv_heads, head_dim, v_head_dim), Attention(int(swa_heads or kv_heads), swa_head_dim, swa_v)


def _dtype(config: Config, text: Config) -> str | None:
    for source in (text, config):
        named = source.get("dtype") or source.get("torch_dtype")
        if isinstance(named, str):
            return named.removeprefix("torch.")
    return None


def _required_int(text: Config, key: str) -> int:
    value = text.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise MisuseError(
            "is needed to size this model's KV cache",
            key=f"model_config.{key}",
            value="nothing" if value is None else value,
            expected="a whole number",
        )
    return value
