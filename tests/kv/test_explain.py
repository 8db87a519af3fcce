"""Explaining starts: what agrees, what contradicts, where the memory went, what changed."""

import json
from pathlib import Path

import pytest

from sglgate.cli import main
from sglgate.errors import MisuseError
from sglgate.kv.agree import launches_agree, shortfall
from sglgate.kv.explain import explain
from sglgate.kv.observed import read_log, stated_minimum
from sglgate.kv.predict import predict
from sglgate.kv.question import Verdict, ask

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 32,
    "max_position_embeddings": 8192,
    "dtype": "bfloat16",
}
ROW = 8 * 256 * 32 * 2


def start(
    *,
    pre=78.0,
    weights=15.0,
    fraction=0.85,
    page=1,
    ranks=("TP0",),
    draft=None,
    tokens=None,
    cut=False,
    pool_gib=None,
):
    """A log as 0.5.9 words it, with the pool that its figures give (or ``tokens``)."""
    avail = pre - weights
    if tokens is None:
        tokens = int((avail - pre * (1 - fraction)) * 2**30) // ROW // page * page
    half = (tokens + page) * ROW / 2**31 if pool_gib is None else pool_gib / 2
    lines = [
        f"[2026-03-01 10:00:00] server_args=ServerArgs(model_path='m', tp_size={len(ranks)}, "
        f"mem_fraction_static={fraction}, page_size={page}, kv_cache_dtype='auto', dtype='auto', "
        f"speculative_algorithm={'None' if draft is None else repr('EAGLE3')}, context_length=4096)"
    ]
    for rank in ranks:
        stamp = f"[2026-03-01 10:00:01 {rank}]"
        lines += [
            f"{stamp} Load weight begin. avail mem={pre:.2f} GB",
            f"{stamp} Load weight end. elapsed=9.00 s, type=LlamaForCausalLM, dtype=torch.bfloat16, "
            f"avail mem={avail:.2f} GB, mem usage={weights:.2f} GB.",
        ]
        if cut:
            continue
        lines += [
            f"{stamp} KV Cache is allocated. #tokens: {tokens}, K size: {half:.2f} GB, V size: {half:.2f} GB",
            f"{stamp} Memory pool end. avail mem={avail - 2 * half - 0.2:.2f} GB",
        ]
        if draft is not None:
            lines += [
                f"{stamp} Load weight begin. avail mem={avail - 2 * half - 0.2:.2f} GB",
                f"{stamp} Load weight end. elapsed=1.00 s, type=LlamaForCausalLMEagle3, "
                f"dtype=torch.bfloat16, avail mem={avail - 2 * half - 1.2:.2f} GB, mem usage=1.00 GB.",
                f"{stamp} KV Cache is allocated. #tokens: {draft}, K size: {half / 32:.2f} GB, "
                f"V size: {half / 32:.2f} GB",
                f"{stamp} Memory pool end. avail mem={avail - 2 * half - 1.4:.2f} GB",
            ]
    if not cut:
        lines.append(
            f"[2026-03-01 10:00:09 {ranks[0]}] max_total_num_tokens={tokens}, chunked_prefill_size=8192, "
            "max_prefill_tokens=16384, max_running_requests=2048, context_len=4096, available_gpu_mem=7.00 GB"
        )
    return "\n".join(lines) + "\n"


@pytest.fixture
def record(tmp_path):
    def make(name="a.log", **figures):
        path = tmp_path / name
        path.write_text(start(**figures))
        return read_log(path)

    return make


def test_a_pool_that_its_figures_give_contradicts_nothing(record):
    found = explain(record(), CONFIG, version="0.5.9")
    assert found.contradictions == ()
    assert [check.inside for check in found.checks] == [True]
    assert found.implied.low <= 0.85 <= found.implied.high


@pytest.mark.parametrize(
    ("figures", "word"),
    [
        ({"tokens": 200_000}, "mem_fraction_static 0.85 does not give this pool"),
        ({"pool_gib": 30.0}, "bytes a token, not 131072"),
    ],
)
def test_a_pool_that_its_figures_do_not_give_is_a_contradiction(record, figures, word):
    found = explain(record(**figures), CONFIG, version="0.5.9")
    assert any(word in text for text in found.contradictions)


def test_ranks_with_different_pools_contradict_each_other(tmp_path):
    path = tmp_path / "a.log"
    text = start(ranks=("TP0", "TP1"))
    head, tail = text.split("10:00:01 TP1] KV Cache is allocated. #tokens: ", 1)
    path.write_text(head + "10:00:01 TP1] KV Cache is allocated. #tokens: 9" + tail)
    found = explain(read_log(path), None)
    assert any("the ranks' target pools differ" in text for text in found.contradictions)


def test_a_draft_with_other_tokens_than_its_target_is_a_contradiction(record):
    assert any("the draft has 1000 tokens" in text for text in explain(record(draft=1000)).contradictions)


def test_a_rank_that_starts_with_less_names_the_other_tenant(tmp_path):
    path = tmp_path / "a.log"
    path.write_text(
        start(ranks=("TP0", "TP1")).replace(
            "TP1] Load weight begin. avail mem=78.00", "TP1] Load weight begin. avail mem=60.00"
        )
    )
    assert any("something else is on a card" in text for text in explain(read_log(path)).contradictions)


def test_a_start_without_a_pool_says_what_its_fraction_would_leave(record):
    found = explain(record(cut=True, fraction=0.1), CONFIG, version="0.5.9")
    assert found.headline.startswith("no pool: 0.1 leaves -7.20 GiB; it must exceed 0.193")


def test_target_and_draft_are_accounted_for_separately(record):
    found = explain(record(draft=391_577), CONFIG, gpu_total_mib=81_559)
    account = found.accounts[0]
    assert account.draft_weights == 1.0
    assert account.target_pool > 30 * account.draft_pool > 0
    assert account.before_weights == pytest.approx(81_559 / 1024 - 78.0)


@pytest.mark.parametrize(
    ("after", "what", "pool_gib"),
    [
        ({"pre": 74.0}, "free before weights (a leftover process, or more before the start)", -3.4),
        ({"weights": 17.0}, "weights", -2.0),
        ({"fraction": 0.80}, "mem_fraction_static", -3.9),
        ({"page": 64}, "page size", None),
        ({"draft": 100_000}, "speculation", None),
    ],
)
def test_what_shrank_is_named_with_its_part_of_the_budget(record, after, what, pool_gib):
    found = explain(record("after.log", **after), CONFIG, against=record("before.log"), version="0.5.9")
    change = next(change for change in found.changes if change.what == what)
    assert change.pool_gib == pool_gib


def test_the_same_start_twice_has_no_changes(record):
    assert explain(record(), CONFIG, against=record("b.log")).changes == ()


def test_a_log_without_readings_is_misuse(tmp_path, capsys):
    path = tmp_path / "empty.log"
    path.write_text("nothing here\n")
    assert main(["kv", "explain", str(path)]) == 2
    assert "Load weight begin" in capsys.readouterr().err


def test_a_missing_log_is_misuse(tmp_path, capsys):
    assert main(["kv", "explain", str(tmp_path / "no.log")]) == 2
    assert "no.log: cannot be read" in capsys.readouterr().err


def test_replicas_of_plain_data_parallelism_are_judged_apart(tmp_path):
    path = tmp_path / "dp.log"
    text = start(ranks=("DP0 TP0",)) + "\n".join(start(ranks=("DP1 TP0",), pre=60.0).splitlines()[1:]) + "\n"
    path.write_text(text.replace("tp_size=1", "tp_size=1, dp_size=2"))
    found = explain(read_log(path), CONFIG, version="0.5.9")
    assert {check.rank: check.inside for check in found.checks} == {"DP0 TP0": True, "DP1 TP0": True}


def test_json_holds_every_section(record, tmp_path, capsys):
    (tmp_path / "c.log").write_text(start())
    main(["kv", "explain", str(tmp_path / "c.log"), "--against", str(tmp_path / "c.log"), "--json"])
    out = json.loads(capsys.readouterr().out)
    assert {"headline", "card_gib", "changes", "ranks", "contradictions"} <= out.keys()


def test_two_launches_with_the_same_figures_agree(record):
    assert [a.agrees for a in launches_agree(record("a.log", draft=391_577), record("b.log", draft=391_577))] == [
        True,
        True,
    ]


@pytest.mark.parametrize("after", [{"tokens": 300_000}, {"draft": 100_000}, {"ranks": ("TP0", "TP1")}])
def test_a_second_launch_with_another_pool_does_not_agree(record, after):
    assert not all(a.agrees for a in launches_agree(record("a.log"), record("b.log", **after)))


def test_a_pool_that_shrank_with_its_start_agrees_with_its_own_readings(record):
    agreement = launches_agree(record("a.log"), record("b.log", pre=77.0))[0]
    assert agreement.first != agreement.second
    assert agreement.agrees


@pytest.mark.parametrize(
    ("need", "lacks"),
    [
        ((100, 0, 0), 0),
        ((None, 10, 4096), 0),
        ((500_000, 0, 0), 500_000 - 420_249),
        ((None, 200, 4096), 398_951),
    ],
)
def test_the_declared_need_is_held_or_the_shortfall_named(record, need, lacks):
    assert shortfall(record(), *need) == lacks


SEED = Path(__file__).parent / "seed.log"
KIMI = json.loads((SEED.parent / "models" / "kimi-k2.5.json").read_text())


@pytest.mark.parametrize(("cap", "binds"), [(159277, True), (200000, False)])
def test_a_pool_at_its_cap_says_nothing_about_the_fraction(tmp_path, cap, binds):
    log = tmp_path / "capped.log"
    text = SEED.read_text().replace("static=0.55", "static=0.95").replace("tokens=None", f"tokens={cap}")
    log.write_text(text)
    found = explain(read_log(log), KIMI, version="0.5.9")
    assert (found.implied is None) == binds
    assert (f"capped by max_total_tokens {cap}" in found.headline) == binds
    assert any("does not give this pool" in text for text in found.contradictions) != binds


def test_free_memory_that_grew_is_misuse_on_a_gpu_and_drift_on_a_cpu():
    asked = {"model_config": CONFIG, "mem_fraction_static": 0.3, "pre_gib": 14.64, "avail_gib": 16.14}
    assert predict(ask({**asked, "device": "cpu"})).verdict is Verdict.FITS
    with pytest.raises(MisuseError, match="avail_gib"):
        predict(ask(asked))


def test_the_minimum_that_sglang_names_is_believed_over_the_rounded_lines(tmp_path):
    log = tmp_path / "below.log"
    log.write_text(
        start(pre=14.47, weights=0.28, fraction=0.0005, tokens=0).split("KV Cache")[0].rsplit("\n", 1)[0]
        + "\nValueError: Loaded weights leave no GPU memory for the KV cache under "
        "--mem-fraction-static=0.0005. Raise --mem-fraction-static above 0.040 (minimum viable = 1 - "
        "available/pre = 0.0399).\n"
    )
    plain = explain(read_log(log), CONFIG)
    told = explain(read_log(log), CONFIG, stated_minimum=stated_minimum(log))
    assert "must exceed 0.020" in plain.headline
    assert "must exceed 0.040" in told.headline
    assert not told.pool_found
