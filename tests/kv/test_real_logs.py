"""The predictor against real launches of SGLang 0.5.23 on a CPU (``benchmarks/kv_grid.py``; logs trimmed to
memory lines).

Each launch printed the readings that sized its pool unrounded: with them the formula must give the count
exactly. From the log alone, as for any log, the count must lie in the interval.
"""

import json
import re
from pathlib import Path

import pytest

from sglgate.kv.checks import predict_from_record
from sglgate.kv.explain import explain
from sglgate.kv.observed import observe, question_of, read_log
from sglgate.kv.predict import predict
from sglgate.kv.question import Verdict

LOGS = Path(__file__).parent / "logs"
GRID = json.loads((LOGS / "grid.json").read_text())
READY = sorted(name for name, entry in GRID.items() if entry["outcome"] == "ready")
DRAFTED = [name for name in READY if "draft_config" in GRID[name]]
VERSION = "0.5.23"


def record_of(name):
    return read_log(LOGS / f"{name}.log")


def exact_question(name):
    """The question with the very readings of the sizing."""
    text = (LOGS / f"{name}.log").read_text()
    readings = {
        word: [float(value) for value in re.findall(rf"kv reading: {word}=([\d.]+) GiB", text)]
        for word in ("pre", "avail")
    }
    observed = observe(record_of(name))
    asked = question_of(observed, observed.ranks, GRID[name]["model_config"], VERSION)
    return asked.model_copy(
        update={
            "pre_gib": readings["pre"][0],
            "avail_gib": readings["avail"][0],
            "rounding_gib": 0.0,
            "mem_fraction_static": GRID[name]["arguments"]["mem-fraction-static"],
            "speculative": asked.speculative
            and asked.speculative.model_copy(update={"draft_model_config": GRID[name].get("draft_config")}),
        }
    )


@pytest.mark.parametrize("name", READY)
def test_the_formula_gives_the_printed_count_exactly(name):
    printed = {pool.tokens for rank in observe(record_of(name)).ranks for pool in rank.pools}
    assert printed == {predict(exact_question(name)).tokens}


@pytest.mark.parametrize("name", READY)
def test_every_rank_lies_in_the_interval_of_its_log(name):
    entry = GRID[name]
    checks = predict_from_record(record_of(name), entry["model_config"], entry.get("draft_config"), VERSION)
    assert len(checks) == entry["arguments"].get("tp", 1) * (2 if "draft_config" in entry else 1)
    assert [check.why for check in checks if check.inside is not True] == []


@pytest.mark.parametrize("name", READY)
def test_a_real_start_contradicts_nothing(name):
    found = explain(record_of(name), GRID[name]["model_config"], version=VERSION)
    assert found.contradictions == ()


@pytest.mark.parametrize("name", READY)
def test_another_pool_than_the_real_one_is_seen(name):
    """The negative control: the same log with a pool one and a half times as large."""
    record = record_of(name)
    for rank in record.ranks.values():
        for pool in rank.kv_pools:
            pool.tokens = pool.tokens * 3 // 2
    checks = predict_from_record(record, GRID[name]["model_config"], GRID[name].get("draft_config"), VERSION)
    assert {check.inside for check in checks} == {False}


def test_the_grid_covers_what_it_claims():
    arguments = [GRID[name]["arguments"] for name in READY]
    assert {entry.get("page-size", 1) for entry in arguments} >= {1, 16, 64}
    assert {entry.get("dtype", "bfloat16") for entry in arguments} == {"bfloat16", "float32"}
    assert {entry.get("tp", 1) for entry in arguments} == {1, 2}
    assert any("max-total-tokens" in entry for entry in arguments)
    assert len({entry["mem-fraction-static"] for entry in arguments}) >= 5


def test_a_fraction_just_below_the_window_failed_for_real():
    message = explain(record_of("bf16-below"), GRID["bf16-below"]["model_config"], version=VERSION)
    answer = predict(exact_question("bf16-below"))
    printed = re.search(
        r"minimum viable = 1 - available/pre = ([\d.]+)", (LOGS / "bf16-below.log").read_text()
    )
    asked = exact_question("bf16-below")
    assert GRID["bf16-below"]["outcome"] == "failed"
    assert answer.verdict is Verdict.EXHAUSTED
    assert not message.pool_found
    assert float(printed[1]) == pytest.approx(1 - asked.avail_gib / asked.pre_gib, abs=5.1e-5)


def test_a_fraction_just_above_it_worked():
    assert GRID["bf16-above"]["outcome"] == "ready"
    above, below = (GRID[f"bf16-{side}"]["arguments"]["mem-fraction-static"] for side in ("above", "below"))
    assert above - below < 0.03
