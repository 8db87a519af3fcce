"""What a config.json means for the KV cache, family by family."""

import pytest

from sglgate.errors import MisuseError
from sglgate.kv.cell import Split, cell_for, resolve_kv_dtype
from sglgate.kv.geometry import Family, read_geometry
from sglgate.kv.predict import predict
from sglgate.kv.question import ask
from sglgate.kv.versions import rules_for

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 32,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}
KIMI = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "vision_config": {"hidden_size": 1152},
    "text_config": {
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "num_hidden_layers": 61,
        "num_attention_heads": 64,
        "num_key_value_heads": 64,
        "hidden_size": 7168,
        "max_position_embeddings": 262144,
        "dtype": "bfloat16",
    },
}
GPT_OSS = {
    "architectures": ["GptOssForCausalLM"],
    "hidden_size": 2880,
    "head_dim": 64,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "num_hidden_layers": 36,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
    "sliding_window": 128,
}
QWEN3_NEXT = {
    "architectures": ["Qwen3NextForCausalLM"],
    "hidden_size": 2048,
    "head_dim": 256,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "num_hidden_layers": 48,
    "full_attention_interval": 4,
    "linear_num_value_heads": 32,
    "linear_num_key_heads": 16,
    "linear_value_head_dim": 128,
    "linear_key_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}
DEEPSEEK_V32 = {
    **KIMI["text_config"],
    "architectures": ["DeepseekV32ForCausalLM"],
    "index_topk": 2048,
    "index_head_dim": 128,
}


def cell(config, *, version="0.5.23", tp=1, pp=1, dp=1, kv="bfloat16", draft=0, raw=None):
    rules = rules_for(version)
    return cell_for(read_geometry(config, rules), rules, Split(tp, pp, dp), kv, draft_layers=draft, dsa_raw_rows=raw)


def test_gqa_counts_k_and_v_of_every_kv_head():
    assert cell(LLAMA).row == 8 * (128 + 128) * 32 * 2


def test_gqa_row_divides_by_tp_until_one_head_is_left():
    assert [cell(LLAMA, tp=tp).row for tp in (1, 2, 8, 16)] == [131072, 65536, 16384, 16384]


def test_mla_row_is_the_same_on_every_rank():
    assert {cell(KIMI, tp=tp).row for tp in (1, 4, 8)} == {(512 + 64) * 61 * 2}


def test_dp_attention_keeps_the_heads_of_a_group_together():
    assert cell(LLAMA, tp=8, dp=4).row == cell(LLAMA, tp=2).row


def test_the_fullest_pipeline_stage_decides():
    assert cell(KIMI, pp=4).row == (512 + 64) * 16 * 2


def test_fp8_halves_a_plain_row():
    assert cell(LLAMA, kv="fp8_e4m3").row * 2 == cell(LLAMA).row


def test_fp4_adds_a_scale_byte_for_sixteen_elements():
    elements = 8 * 256 * 32
    assert cell(LLAMA, version="0.5.9", kv="fp4_e2m1").row == elements // 2 + elements // 16


def test_fp4_recipes_are_a_range_since_their_workspace_depends_on_the_backend():
    recipe = cell(LLAMA, kv="nvfp4")
    assert recipe.sizing < recipe.sizing_max


@pytest.mark.parametrize(("version", "share"), [("0.5.9", 0), ("0.5.13", 0), ("0.5.14", 1152), ("0.5.23", 1152)])
def test_a_draft_is_charged_from_0_5_14_on(version, share):
    assert cell(KIMI, version=version, draft=1).draft_share == share


def test_dsa_fp8_row_was_underbudgeted_until_0_5_16():
    old = cell(DEEPSEEK_V32, version="0.5.16", kv="fp8_e4m3", raw=False)
    new = cell(DEEPSEEK_V32, kv="fp8_e4m3", raw=False)
    assert old.sizing == (576 + 132) * 61
    assert old.row == new.row == new.sizing == (656 + 132) * 61


def test_gpt_oss_has_two_pools_except_in_0_5_7():
    families = {v: read_geometry(GPT_OSS, rules_for(v)).family for v in ("0.5.6", "0.5.7", "0.5.8", "0.5.23")}
    assert families == {"0.5.6": Family.SWA, "0.5.7": Family.GQA, "0.5.8": Family.SWA, "0.5.23": Family.SWA}


def test_linear_hybrid_keeps_kv_only_in_its_attention_layers():
    geometry = read_geometry(QWEN3_NEXT, rules_for("0.5.23"))
    assert geometry.family is Family.LINEAR
    assert geometry.full_layers == tuple(range(3, 48, 4))
    assert cell(QWEN3_NEXT).row == 2 * 512 * 12 * 2


def test_qwen3_next_state_is_conv_window_and_ssm_matrix():
    state = read_geometry(QWEN3_NEXT, rules_for("0.5.23")).state
    conv, ssm = (32 * 128 + 2 * 16 * 128) * 3 * 2, 32 * 128 * 128 * 4
    assert state.bytes_per_request(tp=1) == 36 * (conv + ssm)
    assert state.bytes_per_request(tp=2) * 2 == state.bytes_per_request(tp=1)


@pytest.mark.parametrize("architecture", ["DeepseekV4ForCausalLM", "JetNemotronForCausalLM", "MambaForCausalLM"])
def test_an_unmodelled_family_is_declined_with_its_name(architecture):
    geometry = read_geometry({**LLAMA, "architectures": [architecture]}, rules_for("0.5.23"))
    assert not geometry.modelled
    assert architecture in geometry.declined


@pytest.mark.parametrize("key", ["kv_lora_rank", "mamba_d_state", "linear_num_value_heads"])
def test_an_unknown_class_with_an_unusual_cache_is_declined(key):
    assert not read_geometry({**LLAMA, "architectures": ["NewForCausalLM"], key: 8}, rules_for("0.5.23")).modelled


def test_auto_kv_dtype_follows_the_checkpoint():
    rules = rules_for("0.5.23")
    quantised = {**LLAMA, "quantization_config": {"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}}
    assert resolve_kv_dtype("auto", "auto", read_geometry(LLAMA, rules))[0] == "bfloat16"
    assert resolve_kv_dtype("auto", "auto", read_geometry(quantised, rules))[0] == "fp8_e4m3"


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"architectures": []}, "model_config.architectures"),
        ({"architectures": ["LlamaForCausalLM"]}, "model_config.num_hidden_layers"),
        ({**LLAMA, "num_hidden_layers": "32"}, "model_config.num_hidden_layers"),
    ],
)
def test_a_config_without_its_numbers_is_misuse(config, key):
    with pytest.raises(MisuseError, match=key):
        read_geometry(config, rules_for("0.5.23"))


def test_gemma3_is_read_with_the_defaults_its_file_leaves_out():
    config = {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "text_config": {"hidden_size": 2560, "num_hidden_layers": 34, "sliding_window": 1024},
    }
    assert cell(config).row == 4 * 512 * 34 * 2
    two_pools = cell(config, version="0.5.6")
    assert (two_pools.full_layers, two_pools.swa_layers) == (5, 29)


def test_a_standalone_draft_is_not_guessed():
    asked = {"model_config": LLAMA, "sglang_version": "0.5.23", "speculative": {"algorithm": "STANDALONE"}}
    assert "draft_layers" in predict(ask({**asked, "pre_gib": 78, "avail_gib": 60})).notes[0]


def test_one_ranks_figures_leave_room_for_the_others():
    asked = {"model_config": LLAMA, "tp_size": 8, "mem_fraction_static": 0.85, "pre_gib": 78, "avail_gib": 70}
    one, all_ranks = (predict(ask({**asked, "rank_spread_gib": spread})) for spread in (None, 0.0))
    assert one.tokens == all_ranks.tokens
    assert one.tokens_min < all_ranks.tokens_min
    assert one.tokens_max > all_ranks.tokens_max
