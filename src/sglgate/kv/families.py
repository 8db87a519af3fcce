"""Which model classes SGLang treats how, release by release, and the keys that such a decision reads.

Sources, in the wheels 0.5.5, 0.5.7 to 0.5.12 and 0.5.23: ``configs/model_config.py``
(``_derive_model_shapes``, ``is_hybrid_swa_model``, ``get_hybrid_layer_ids``, ``is_deepseek_dsa``,
``dsa_layer_skips_topk``), ``configs/hybrid_arch.py``, and for 0.5.5 and 0.5.6
``model_executor/model_runner.py`` (any class with ``get_attention_sliding_window_size``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sglgate.kv.versions import Release, Rules

Config = Mapping[str, Any]

_CONTEXT_KEYS = (
    "max_sequence_length",
    "seq_length",
    "max_seq_len",
    "model_max_length",
    "max_position_embeddings",
)

MLA_ARCHITECTURES = frozenset(
    {
        "DeepseekV2ForCausalLM",
        "DeepseekV3ForCausalLM",
        "DeepseekV32ForCausalLM",
        "DeepseekV3ForCausalLMNextN",
        "DeepseekVL2ForCausalLM",
        "DotsVLMForCausalLM",
        "Eagle3DeepseekV2ForCausalLM",
        "Glm4MoeLiteForCausalLM",
        "GlmMoeDsaForCausalLM",
        "KimiK25ForConditionalGeneration",
        "KimiLinearForCausalLM",
        "KimiVLForConditionalGeneration",
        "LongcatFlashForCausalLM",
        "MiniCPM3ForCausalLM",
        "MistralLarge3ForCausalLM",
        "MistralLarge3ForCausalLMEagle",
        "PixtralForConditionalGeneration",
        "SarvamMLAForCausalLM",
    }
)
DSA_ARCHITECTURES = frozenset(
    {
        "DeepseekV3ForCausalLM",
        "DeepseekV32ForCausalLM",
        "DeepseekV3ForCausalLMNextN",
        "GlmMoeDsaForCausalLM",
        "LongcatFlashForCausalLM",
        "MistralLarge3ForCausalLM",
        "PixtralForConditionalGeneration",
    }
)
LINEAR_ARCHITECTURES = frozenset(
    {
        "FalconH1ForCausalLM",
        "GraniteMoeHybridForCausalLM",
        "KimiLinearForCausalLM",
        "Lfm2ForCausalLM",
        "NemotronHForCausalLM",
        "Qwen3NextForCausalLM",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForConditionalGeneration",
    }
)
_CLASS_DEFAULTS: dict[str, dict[str, int]] = {
    "Gemma3ForConditionalGeneration": {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "sliding_window_pattern": 6,
        "max_position_embeddings": 131072,
    },
}
_OLD_NAMES = {"num_hidden_layers": ("num_layers", "n_layer", "n_layers"), "head_dim": ("kv_channels",)}
_LAYER_TYPES_SINCE: dict[str, Release] = {
    "GptOssForCausalLM": (0, 5, 8),
    "Step3p5ForCausalLM": (0, 5, 9),
    "Gemma4ForCausalLM": (0, 5, 11),
    "Gemma4ForConditionalGeneration": (0, 5, 11),
    "LagunaForCausalLM": (0, 5, 12),
    "Gemma4UnifiedForConditionalGeneration": (0, 5, 13),
    "Step3p7ForConditionalGeneration": (0, 5, 13),
    "MellumForCausalLM": (0, 5, 16),
}
_PATTERN_SINCE: dict[str, Release] = {"MiMoV2FlashForCausalLM": (0, 5, 7), "MiMoV2ForCausalLM": (0, 5, 11)}
_WINDOW_METHOD_UP_TO_0_5_6 = frozenset(
    {
        "Gemma2ForCausalLM",
        "Gemma3ForCausalLM",
        "Gemma3ForConditionalGeneration",
        "GptOssForCausalLM",
        "Olmo2ForCausalLM",
        "Olmo3ForCausalLM",
    }
)
_OTHER_CACHES = {
    "DeepseekV4": "DeepSeek-V4 keeps four compressed pools of its own",
    "MiniMaxM3Sparse": "MiniMax sparse attention keeps an index pool of its own",
    "MiniMaxM1": "its lightning-attention layers keep a state that is not modelled here",
    "MiniMaxText01": "its lightning-attention layers keep a state that is not modelled here",
    "Bailing": "the Bailing hybrids (Ling, Ring) mix MLA with a linear state that is not modelled here",
    "Lfm2Moe": "LFM2-MoE keeps a short-convolution state that is not modelled here",
    "Lfm2Vl": "LFM2-VL keeps a short-convolution state that is not modelled here",
    "JetNemotron": "Jet-Nemotron keeps a linear state that is not modelled here",
    "JetVLM": "Jet-Nemotron keeps a linear state that is not modelled here",
    "Mamba": "a pure state-space model has no KV cache",
    "FalconMamba": "a pure state-space model has no KV cache",
    "Zaya": "ZAYA keeps a convolution state that is not modelled here",
    "Inkling": "Inkling mixes a sliding pool with a convolution state, which is not modelled here",
    "Gemma3n": "Gemma 3n shares KV between layers, which is not modelled here",
    "Whisper": "an encoder-decoder keeps cross-attention KV, which is not modelled here",
    "Mllama": "an encoder-decoder keeps cross-attention KV, which is not modelled here",
    "DeciLM": "its layers differ in width one by one, which is not modelled here",
    "Qwen4": "Qwen4's sparse pools are not modelled here",
    "Dots3": "dots3's MLA with a sliding pool is not modelled here",
    "Glm5Next": "GLM-5-Next mixes DSA with a linear state, which is not modelled here",
    "KimiK3": "Kimi-K3 mixes MLA with a linear state in a way that is not modelled here",
    "HYV4": "Hunyuan V4's cache is not modelled here",
    "MuseSpark": "its cache is not modelled here",
    "UnlimitedOCR": "a model of sliding layers only is not modelled here",
    "Qwen3_5ForCausalLMMTP": "a draft alone has no pool of its own size",
}


def why_unmodelled(architecture: str, text: Config, rules: Rules) -> str:
    """Why no honest prediction exists for this model, or an empty text."""
    for prefix, reason in _OTHER_CACHES.items():
        if architecture.startswith(prefix):
            return f"{architecture}: {reason}"
    if architecture not in MLA_ARCHITECTURES and text.get("kv_lora_rank"):
        return f"{architecture} declares kv_lora_rank (MLA) but is not among the MLA classes that were read"
    if architecture not in LINEAR_ARCHITECTURES and _has_state_keys(text):
        return f"{architecture} declares linear-attention or state-space layers that are not modelled here"
    if architecture in MLA_ARCHITECTURES and not text.get("use_mla", True):
        return f"{architecture} switches MLA off in its configuration, which is not modelled here"
    if text.get("is_hybrid_swa") and architecture not in {**_LAYER_TYPES_SINCE, **_PATTERN_SINCE}:
        return f"{architecture} opts into a sliding pool by is_hybrid_swa, which is not modelled here"
    if text.get("block_configs"):
        return f"{architecture} gives each layer its own width (block_configs), which is not modelled here"
    if architecture == "LongcatFlashForCausalLM" and text.get("index_topk") is not None:
        return "LongCat with sparse attention shares index keys in a way that is not modelled here"
    if rules.windows_from_model and architecture == "Llama4ForConditionalGeneration":
        return "Llama 4's hybrid cache up to 0.5.6 depends on --hybrid-kvcache-ratio, which is not modelled here"
    return ""


def _has_state_keys(text: Config) -> bool:
    if any(kind in ("linear_attention", "mamba", "conv") for kind in text.get("layer_types") or ()):
        return True
    return any(
        key in text for key in ("linear_num_value_heads", "mamba_d_state", "ssm_state_size", "linear_attn_config")
    )


def sliding_layers(
    architecture: str, text: Config, layer_count: int, rules: Rules
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Layer ids (sliding, full) when this release keeps two pools for this model, else None."""
    layers = range(layer_count)
    if architecture == "Llama4ForConditionalGeneration" and rules.release >= (0, 5, 8):
        return tuple(i for i in layers if (i + 1) % 4), tuple(i for i in layers if (i + 1) % 4 == 0)
    if rules.windows_from_model:
        if architecture not in _WINDOW_METHOD_UP_TO_0_5_6 or not text.get("sliding_window"):
            return None
        if architecture == "Gemma2ForCausalLM":
            return tuple(i for i in layers if i % 2 == 0), tuple(i for i in layers if i % 2)
        return _by_type(text, layer_count)
    if rules.release >= _LAYER_TYPES_SINCE.get(architecture, (9, 0, 0)):
        if architecture == "LagunaForCausalLM" and not text.get("sliding_window"):
            return None
        return _by_type(text, layer_count)
    if rules.release >= _PATTERN_SINCE.get(architecture, (9, 0, 0)):
        pattern = text.get("hybrid_layer_pattern") or ()
        return tuple(i for i in layers if pattern[i] == 1), tuple(i for i in layers if pattern[i] == 0)
    return None


def _by_type(text: Config, layer_count: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    kinds = layer_types(text, layer_count)
    if not kinds:
        return None
    return (
        tuple(i for i, kind in enumerate(kinds) if kind == "sliding_attention"),
        tuple(i for i, kind in enumerate(kinds) if kind == "full_attention"),
    )


def layer_types(text: Config, layer_count: int) -> tuple[str, ...]:
    """The kind of each layer: as listed, or by ``sliding_window_pattern`` (every n-th layer is full), or
    empty."""
    listed = text.get("layer_types")
    if listed:
        return tuple(str(kind) for kind in listed[:layer_count])
    pattern = text.get("sliding_window_pattern") or text.get("_sliding_window_pattern")
    if isinstance(pattern, int) and pattern > 0:
        return tuple("sliding_attention" if (i + 1) % pattern else "full_attention" for i in range(layer_count))
    return ()


def uses_window(text: Config) -> bool:
    """Whether a declared window is in use; Qwen2 and its kin ship one switched off."""
    return text.get("use_sliding_window") is not False


def reuses_topk(text: Config, layer: int) -> bool:
    """Whether a DSA layer takes its top-k from an earlier layer and so needs no index keys (0.5.18 on).

    Source: 0.5.23 ``configs/model_config.py`` ``dsa_layer_skips_topk``.
    """
    kinds = text.get("indexer_types")
    if kinds is not None:
        return bool(layer < len(kinds) and kinds[layer] == "shared")
    pattern = text.get("index_topk_pattern")
    if pattern is not None:
        return bool(layer < len(pattern) and pattern[layer] == "S")
    frequency = int(text.get("index_topk_freq") or 1)
    offset = int(text.get("index_skip_topk_offset") or 2)
    return max(layer - offset + 1, 0) % frequency != 0


def normalised(architecture: str, text: Config) -> Config:
    """The language model's configuration under the names that SGLang ends up with.

    Files may leave out what the model's configuration class fills in (Gemma 3) or use an older name (GLM).
    """
    whole = dict(_CLASS_DEFAULTS.get(architecture, {})) | dict(text)
    for key, olds in _OLD_NAMES.items():
        if whole.get(key) is None:
            found = next((text[old] for old in olds if text.get(old) is not None), None)
            if found is not None:
                whole[key] = found
    return _with_gemma4_names(architecture, whole)


def _with_gemma4_names(architecture: str, text: Config) -> Config:
    """Gemma 4 writes its sliding shape under the plain names and the full one under ``global_*``; SGLang
    swaps them.

    Source: 0.5.12 and 0.5.23 ``utils/hf_transformers/config.py``.
    """
    if not architecture.startswith("Gemma4"):
        return text
    swapped = dict(text)
    swapped |= {
        "swa_head_dim": text.get("head_dim"),
        "swa_v_head_dim": text.get("head_dim"),
        "swa_num_key_value_heads": text.get("num_key_value_heads"),
        "head_dim": text.get("global_head_dim") or text.get("head_dim"),
        "num_key_value_heads": text.get("num_global_key_value_heads") or text.get("num_key_value_heads"),
    }
    return swapped


def total_kv_heads(text: Config, attention_heads: int) -> int:
    """KV heads of the whole model, under the names SGLang tries and in its order."""
    if text.get("multi_query") and not text.get("new_decoder_architecture"):
        return 1
    for key in (
        "n_head_kv",
        "num_kv_heads",
        "num_key_value_heads",
        "multi_query_group_num",
        "num_attention_groups",
    ):
        if text.get(key) is not None:
            return int(text[key])
    inner = text.get("attn_config")
    if isinstance(inner, Mapping) and inner.get("kv_n_heads") is not None:
        return int(inner["kv_n_heads"])
    return attention_heads


def nemotron_blocks(text: Config) -> tuple[str, ...]:
    """Nemotron-H's layers as words, from ``layers_block_type`` or the older ``hybrid_override_pattern``."""
    listed = text.get("layers_block_type")
    if listed:
        return tuple(str(kind) for kind in listed)
    letters = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
    return tuple(letters.get(letter, "other") for letter in str(text.get("hybrid_override_pattern") or ""))


def declares_fp8_kv(config: Config, text: Config) -> bool:
    """Whether ``kv_cache_dtype=auto`` becomes FP8 because the checkpoint's quantisation says so."""
    for source in (config, text):
        quant = source.get("quantization_config")
        if not isinstance(quant, Mapping):
            continue
        nested = quant.get("quantization")
        for place in (quant, nested if isinstance(nested, Mapping) else {}):
            if str(place.get("kv_cache_quant_algo") or "").upper() == "FP8":
                return True
            if str(place.get("quant_method") or "").lower() == "modelopt" and _is_fp8_scheme(place):
                return True
    return False


def _is_fp8_scheme(quant: Config) -> bool:
    scheme = quant.get("kv_cache_scheme")
    return isinstance(scheme, Mapping) and scheme.get("type") == "float" and scheme.get("num_bits") == 8


def context_length(text: Config) -> int:
    """The context that SGLang derives: the first known key, times the RoPE factor where it is not already
    in it.

    Source: 0.5.23 ``utils/hf_transformers/common.py`` ``get_context_length``.
    """
    scaling = text.get("rope_scaling")
    factor = 1.0
    if isinstance(scaling, Mapping):
        known = "original_max_position_embeddings" in scaling or scaling.get("rope_type") == "llama3"
        factor = 1.0 if known else float(scaling.get("factor") or 1)
    for key in _CONTEXT_KEYS:
        if text.get(key) is not None:
            return int(factor * int(text[key]))
    return 2048


def rope_table(text: Config, head_dim: int) -> dict[str, Any]:
    """Rotary width and rows of the RoPE table as built: what may be allocated a second time when it is
    grown."""
    parameters = text.get("rope_parameters")
    rope: Config = parameters if isinstance(parameters, Mapping) else {}
    partial = text.get("partial_rotary_factor") or rope.get("partial_rotary_factor") or 1
    scaling = text.get("rope_scaling") or rope
    rows = int(text.get("max_position_embeddings") or 0)
    kind = (scaling.get("rope_type") or scaling.get("type")) if isinstance(scaling, Mapping) else None
    if kind in ("yarn", "deepseek_yarn", "linear") and isinstance(scaling, Mapping):
        original = int(scaling.get("original_max_position_embeddings") or rows)
        rows = int(original * float(scaling.get("factor") or 1))
    return {"rope_rotary_dim": int(head_dim * float(partial)), "rope_rows": rows}
