"""Default fractions, the working window, and how both are shown."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from sglgate.cli import main
from sglgate.errors import MisuseError
from sglgate.kv import plot
from sglgate.kv.case import prepare
from sglgate.kv.defaults import default_fraction, prefill_graph_sizes, vision_factor
from sglgate.kv.effects import effects
from sglgate.kv.question import ask
from sglgate.kv.window import fraction_window

HERE = Path(__file__).parent
MODELS = HERE / "models"
RTX_PRO_6000_MIB = 97_887


def question(model="llama-3.1-8b", **more):
    return ask({"model_config": str(MODELS / f"{model}.json"), "sglang_version": "0.5.9", **more})


def default(model="llama-3.1-8b", **more):
    case = prepare(question(model, gpu_total_mib=RTX_PRO_6000_MIB, **more))
    return default_fraction(case.question, case.rules, case.geometry, case.config)


@pytest.mark.parametrize(("tp", "fraction"), [(1, 0.863), (2, 0.861), (4, 0.854), (8, 0.848)])
def test_default_of_0_5_9_on_rtx_pro_6000(tp, fraction):
    assert default(tp_size=tp).high == fraction


@pytest.mark.parametrize(("tp", "fraction"), [(1, 0.842), (2, 0.840), (4, 0.833), (8, 0.827)])
def test_default_of_0_5_9_leaves_2_gib_to_a_draft(tp, fraction):
    assert default(tp_size=tp, speculative={"algorithm": "EAGLE3"}).high == fraction


@pytest.mark.parametrize(("tp", "fraction"), [(1, 0.858), (2, 0.857), (4, 0.849), (8, 0.844)])
def test_default_of_0_5_23_with_prefill_graphs(tp, fraction):
    assert default(tp_size=tp, sglang_version="0.5.23").low == fraction


def test_speculation_changes_no_default_once_the_draft_is_counted():
    plain, drafted = (
        default(sglang_version="0.5.23", **more) for more in ({}, {"speculative": {"algorithm": "EAGLE3"}})
    )
    assert plain == drafted


def test_the_reserve_for_a_draft_was_4_gib_from_0_5_10_to_0_5_13():
    drafts = {
        v: default(sglang_version=v, speculative={"algorithm": "EAGLE3"}).high for v in ("0.5.9", "0.5.10", "0.5.14")
    }
    assert drafts["0.5.10"] < drafts["0.5.9"] < drafts["0.5.14"]


def test_prefill_graphs_capture_58_sizes_up_to_8192():
    assert prefill_graph_sizes(8192) == 58


def test_a_vision_encoder_lowers_the_default_within_bounds():
    huge = {"vision_config": {"num_hidden_layers": 100, "hidden_size": 4096}}
    tiny = {"vision_config": {"num_hidden_layers": 1, "hidden_size": 64}}
    assert vision_factor({}) == 1.0
    assert vision_factor(huge) == pytest.approx(0.95 * 0.8)
    assert vision_factor(tiny) == pytest.approx(0.95 * 1.05)


def test_the_window_of_the_seed_case():
    window = fraction_window(
        question("kimi-k2.5", tp_size=8, pre_gib=94, avail_gib=21.71, gpu_total_mib=RTX_PRO_6000_MIB)
    )
    assert window.starts_above == 0.770
    assert window.lowest == 0.775
    assert window.starts_above <= window.lowest < window.highest
    assert window.default_position == "inside"
    assert "14.50 GiB" in window.assumption


def test_a_measured_headroom_replaces_the_assumption():
    asked = question(pre_gib=94, avail_gib=79, gpu_total_mib=RTX_PRO_6000_MIB)
    window = fraction_window(asked, headroom_gib=4.7)
    assert window.highest == 0.95
    assert window.assumption == "graphs and activations need 4.7 GiB, as given"


def test_a_window_is_empty_when_weights_leave_less_than_the_headroom():
    window = fraction_window(question(pre_gib=94, avail_gib=5, gpu_total_mib=RTX_PRO_6000_MIB))
    assert window.empty
    assert window.default_position == "below"


def test_a_window_without_memory_is_misuse():
    with pytest.raises(MisuseError, match="pre_gib"):
        fraction_window(question())


def test_memory_may_be_estimated_from_the_card_and_the_weights():
    window = fraction_window(question(gpu_total_mib=RTX_PRO_6000_MIB, weights_gib=16))
    assert not window.empty
    assert "Load weight begin" in window.assumption


def test_effects_vary_one_thing_each():
    varied = {e.what: e.prediction for e in effects(question(pre_gib=78, avail_gib=63, mem_fraction_static=0.85))}
    base = varied["KV bfloat16"].tokens
    assert varied["KV fp8_e4m3"].tokens == pytest.approx(2 * base, abs=2)
    assert varied["TP 2"].tokens > 2 * base
    assert "EAGLE-3" in varied


def test_the_plot_is_an_svg_with_the_window_shaded_and_marks():
    window = fraction_window(question(pre_gib=94, avail_gib=79, gpu_total_mib=RTX_PRO_6000_MIB))
    tree = ET.fromstring(plot.svg(window, "a <title>", asked=0.9))
    shaded = [e for e in tree.iter() if e.get("fill") == "#d7efdc"]
    words = " ".join(e.text or "" for e in tree.iter())
    assert len(shaded) == 1
    assert float(shaded[0].get("width")) > 0
    assert "default 0.863" in words
    assert "asked 0.900" in words


def test_an_empty_window_shades_nothing():
    window = fraction_window(question(pre_gib=94, avail_gib=5, gpu_total_mib=RTX_PRO_6000_MIB))
    assert "#d7efdc" not in plot.svg(window, "t")
    assert "#" not in plot.terminal(window).split("\n")[0]


CONTRACT = [
    "tokens",
    "tokens_min",
    "tokens_max",
    "bytes_per_token",
    "pool_gib",
    "implied_fraction",
    "verdict",
]


def kv(*words):
    return main(["kv", "predict", *words])


SEED = ["--config", str(MODELS / "kimi-k2.5.json"), "--tp", "8", "--pre-gib", "94", "--avail-gib", "21.71"]


def test_predict_prints_exactly_the_contract_as_json(capsys):
    assert kv(*SEED, "--fraction", "0.88", "--sglang-version", "0.5.9", "--json") == 0
    out = json.loads(capsys.readouterr().out)
    assert list(out) == [*CONTRACT, "notes"]
    assert out["verdict"] == "fits"


def test_json_in_is_read_and_options_override_it(tmp_path, capsys):
    (tmp_path / "config.json").write_text((MODELS / "kimi-k2.5.json").read_text())
    asked = {
        "sglang_version": "0.5.9",
        "model_config": "config.json",
        "tp_size": 8,
        "pp_size": 1,
        "dp_attention": False,
        "dtype": "bfloat16",
        "kv_cache_dtype": "auto",
        "mem_fraction_static": 0.55,
        "pre_gib": 94,
        "avail_gib": 21.71,
        "page_size": 1,
        "max_total_tokens": None,
        "speculative": {},
        "gpu_total_mib": 97887,
    }
    (tmp_path / "q.json").write_text(json.dumps(asked))
    assert kv("--json-in", str(tmp_path / "q.json"), "--json") == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "exhausted"
    assert kv("--json-in", str(tmp_path / "q.json"), "--fraction", "0.88", "--json") == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--config: no model"),
        (["--config", "/no/such"], "cannot be read"),
        ([*SEED, "--fraction", "1.5"], "mem_fraction_static"),
        ([*SEED, "--sglang-version", "newest"], "not an SGLang release"),
        ([*SEED, "--dp-attention", "3"], "does not divide tp_size 8"),
        ([*SEED[:-1], "99", "--fraction", "0.9"], "more is free after the weights"),
        (["--json-in", "/no/such.json"], "cannot be read"),
    ],
)
def test_bad_input_is_one_clear_error(words, message, capsys):
    assert kv(*words) == 2
    assert message in capsys.readouterr().err


def test_a_misspelt_key_is_answered_with_the_nearest(tmp_path, capsys):
    (tmp_path / "q.json").write_text('{"model_config": {}, "mem_fraction": 0.9}')
    assert kv("--json-in", str(tmp_path / "q.json")) == 2
    assert "did you mean 'mem_fraction_static'?" in capsys.readouterr().err


def test_sweep_prints_the_plot_and_writes_the_svg(tmp_path, capsys):
    target = tmp_path / "w.svg"
    assert kv(*SEED, "--fraction", "0.8", "--gpu-total-mib", "97887", "--sweep", "--svg", str(target)) == 0
    out = capsys.readouterr().out
    assert "window 0.77" in out
    assert "D = default" in out
    ET.parse(target)


def test_a_plot_that_cannot_be_written_is_misuse(tmp_path, capsys):
    assert kv(*SEED, "--fraction", "0.8", "--svg", str(tmp_path / "no" / "w.svg")) == 2
    assert "--svg" in capsys.readouterr().err


def test_an_unmodelled_family_is_red_and_says_why(capsys):
    words = [
        "--config",
        str(MODELS / "deepseek-v4.json"),
        "--pre-gib",
        "137",
        "--avail-gib",
        "12",
        "--fraction",
        "0.9",
    ]
    assert kv(*words) == 1
    assert "DeepSeek-V4 keeps four compressed pools" in capsys.readouterr().out
