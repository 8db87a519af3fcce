"""What is not modelled is declined with its reason, never guessed: the refusals that hang on the whole
question."""

import pytest

from sglgate.kv.predict import predict
from sglgate.kv.question import Verdict, ask

GPT_OSS = {
    "architectures": ["GptOssForCausalLM"],
    "hidden_size": 2880,
    "head_dim": 64,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "num_hidden_layers": 36,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
    "sliding_window": 128,
    "torch_dtype": "bfloat16",
}
SLIDING_DRAFT = {**GPT_OSS, "architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 2}
EAGLE3 = {"algorithm": "EAGLE3", "draft_model_config": SLIDING_DRAFT}


def answer(version="0.5.23", **more):
    asked = {"model_config": GPT_OSS, "sglang_version": version, "mem_fraction_static": 0.85}
    return predict(ask({**asked, "pre_gib": 78, "avail_gib": 60, **more}))


def test_the_model_itself_is_predicted():
    assert answer().verdict is Verdict.FITS


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"speculative": {"algorithm": "DFLASH"}}, "DFLASH"),
        ({"speculative": {"algorithm": "STANDALONE"}}, "draft_layers"),
        ({"speculative": EAGLE3}, "draft with sliding layers"),
        ({"pp_size": 2}, "pipeline parallelism"),
        ({"kv_cache_dtype": "fp4_e2m1"}, "fp4"),
        ({"disable_radix_cache": True, "max_running_requests": 8}, "sized by requests"),
    ],
)
def test_a_refusal_names_its_reason_and_gives_no_number(more, reason):
    declined = answer(**more)
    assert declined.verdict is Verdict.DECLINED
    assert reason in declined.notes[0]
    assert (declined.tokens, declined.tokens_min, declined.tokens_max) == (None, None, None)


@pytest.mark.parametrize(
    ("version", "more"),
    [
        ("0.5.18", {"speculative": EAGLE3}),
        ("0.5.13", {"disable_radix_cache": True, "max_running_requests": 8}),
    ],
)
def test_a_refusal_holds_only_from_the_release_that_brought_the_rule(version, more):
    assert answer(version, **more).verdict is Verdict.FITS
