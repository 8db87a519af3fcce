"""The case that started this project: 8 x RTX PRO 6000, Kimi-K2.5 at TP8, a run believed to use 0.55."""

import json
from pathlib import Path

import pytest

from sglgate.cli import main
from sglgate.kv.predict import predict
from sglgate.kv.question import Verdict, ask
from sglgate.kv.versions import distinct_releases

HERE = Path(__file__).parent
KIMI = str(HERE / "models" / "kimi-k2.5.json")
LOG = str(HERE / "seed.log")


def run(fraction, avail_gib=21.71, **more):
    return ask(
        {
            "sglang_version": "0.5.9",
            "model_config": KIMI,
            "tp_size": 8,
            "mem_fraction_static": fraction,
            "pre_gib": 94.0,
            "avail_gib": avail_gib,
            **more,
        }
    )


def test_one_line_answers_and_the_exit_is_red(capsys):
    code = main(["kv", "explain", LOG, "--config", KIMI, "--sglang-version", "0.5.9"])
    first = capsys.readouterr().out.splitlines()[0]
    assert code == 1
    assert first == (
        "the run that worked did not use 0.55; its pool implies f = 0.88; 0.55 can never work here, "
        "the smallest fraction that holds one 4096-token request is 0.772 (0.775 to be sure)"
    )


def test_the_token_count_follows_from_geometry_at_088():
    answer = predict(run(0.88))
    assert answer.bytes_per_token == (512 + 64) * 61 * 2
    assert answer.tokens_min <= 159277 <= answer.tokens_max
    assert answer.tokens == pytest.approx(159277, rel=1e-3)
    assert answer.pool_gib == pytest.approx(10.42, abs=0.011)


def test_the_pool_implies_088():
    assert predict(run(0.88, observed_tokens=159277)).implied_fraction == pytest.approx(0.88, abs=5e-4)


@pytest.mark.parametrize("avail_gib", [21.71, 21.78, 21.70])
@pytest.mark.parametrize("version", distinct_releases())
def test_055_leaves_no_pool_in_any_release(avail_gib, version):
    answer = predict(run(0.55, avail_gib, sglang_version=version))
    assert answer.verdict is Verdict.EXHAUSTED
    assert answer.tokens == 0
    assert "can never work here" in answer.notes[-1]


def test_explain_as_json_keeps_the_contract_and_names_the_contradiction(capsys):
    main(["kv", "explain", LOG, "--config", KIMI, "--json"])
    out = json.loads(capsys.readouterr().out)
    assert list(out)[:9] == [
        "tokens",
        "tokens_min",
        "tokens_max",
        "bytes_per_token",
        "pool_gib",
        "implied_fraction",
        "verdict",
        "notes",
        "contradictions",
    ]
    assert out["implied_fraction"] == pytest.approx(0.88, abs=5e-4)
    assert any("0.55 does not give this pool" in text for text in out["contradictions"])


def test_the_card_is_accounted_for_to_the_rounding(capsys):
    main(["kv", "explain", LOG, "--config", KIMI, "--gpu-total-mib", "97887", "--json"])
    card = json.loads(capsys.readouterr().out)["card_gib"][0]
    parts = ("before_weights", "weights", "target_pool", "unlogged", "left")
    assert sum(card[part] for part in parts) == pytest.approx(97887 / 1024, abs=0.03)


def test_the_same_log_believed_to_be_088_contradicts_nothing(capsys):
    code = main(["kv", "explain", LOG, "--config", KIMI, "--believed-fraction", "0.88", "--sglang-version", "0.5.9"])
    assert "contradiction" not in capsys.readouterr().out
    assert code == 0
