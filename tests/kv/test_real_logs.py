"""The predictor against real launches of SGLang 0.5.23 on a CPU (``benchmarks/kv_grid.py``; logs trimmed to
memory lines).

Each launch printed the readings that sized its pool unrounded: with them the formula must give the count
exactly. From the log alone, as for any log, the count must lie in the interval.
"""

import json
import re
from pathlib import Path

import pytest

from sglgate.kv.budget import minimum_fraction
from sglgate.kv.checks import exact_readings, predict_from_record
from sglgate.kv.explain import explain
from sglgate.kv.observed import observe, question_of, read_log
from sglgate.kv.predict import predict
from sglgate.kv.question import Verdict

LOGS = Path(__file__).parent / "logs"
GRID = json.loads((LOGS / "grid.json").read_text())
READY = sorted(name for name, entry in GRID.items() if entry["outcome"] == "ready")
UNCAPPED = [name for name in READY if "max-total-tokens" not in GRID[name]["arguments"]]
VERSION = "0.5.23"


def record_of(name):
    return read_log(LOGS / f"{name}.log")


def readings_of(name):
    found = exact_readings(LOGS / f"{name}.log")
    assert found is not None
    return found


def checks_of(name, record=None, **given):
    entry = GRID[name]
    record = record or record_of(name)
    return predict_from_record(record, entry["model_config"], entry.get("draft_config"), VERSION, **given)


def exact_question(name):
    """The question with the very readings of the sizing."""
    observed = observe(record_of(name))
    pre, avail = readings_of(name)
    asked = question_of(observed, observed.ranks, GRID[name]["model_config"], VERSION)
    return asked.model_copy(
        update={
            "pre_gib": pre,
            "avail_gib": avail,
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


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", READY)
def test_every_rank_lies_in_its_interval(name, exact):
    entry = GRID[name]
    checks = checks_of(name, readings=readings_of(name) if exact else None)
    assert len(checks) == entry["arguments"].get("tp", 1) * (2 if "draft_config" in entry else 1)
    assert [check.why for check in checks if check.inside is not True] == []
    if exact:
        assert {check.tokens_max - check.tokens_min for check in checks} == {0}


@pytest.mark.parametrize("name", READY)
def test_a_real_start_contradicts_nothing(name):
    found = explain(record_of(name), GRID[name]["model_config"], version=VERSION)
    assert found.contradictions == ()


@pytest.mark.parametrize("name", READY)
def test_one_page_more_than_the_real_pool_is_seen(name):
    """The negative control on the exact readings."""
    record = record_of(name)
    for rank in record.ranks.values():
        for pool in rank.kv_pools:
            pool.tokens += GRID[name]["arguments"].get("page-size", 1)
    assert {check.inside for check in checks_of(name, record, readings=readings_of(name))} == {False}


@pytest.mark.parametrize("name", UNCAPPED)
def test_another_fraction_than_the_real_one_is_seen_in_the_log_alone(name):
    fraction = GRID[name]["arguments"]["mem-fraction-static"] + 0.1
    assert {check.inside for check in checks_of(name, fraction=fraction)} == {False}


def test_the_grid_covers_what_it_claims():
    arguments = [GRID[name]["arguments"] for name in READY]
    assert {entry.get("page-size", 1) for entry in arguments} >= {1, 16, 64}
    assert {entry.get("dtype", "bfloat16") for entry in arguments} == {"bfloat16", "float32"}
    assert {entry.get("tp", 1) for entry in arguments} == {1, 2}
    assert any("max-total-tokens" in entry for entry in arguments)
    assert any("draft_config" in GRID[name] for name in READY)
    assert len({entry["mem-fraction-static"] for entry in arguments}) >= 5


def distance(name):
    """How far the fraction lies above the window's lower end, by the launch's own readings."""
    pre, avail = readings_of(name)
    return GRID[name]["arguments"]["mem-fraction-static"] - minimum_fraction(pre, avail)


def test_a_fraction_just_below_the_window_failed_for_real():
    record = record_of("fp32-below")
    printed = re.search(r"minimum viable = 1 - available/pre = ([\d.]+)", (LOGS / "fp32-below.log").read_text())
    assert GRID["fp32-below"]["outcome"] == "failed"
    assert -0.03 < distance("fp32-below") < 0
    assert predict(exact_question("fp32-below")).verdict is Verdict.EXHAUSTED
    assert not explain(record, GRID["fp32-below"]["model_config"], version=VERSION).pool_found
    assert float(printed[1]) == pytest.approx(minimum_fraction(*readings_of("fp32-below")), abs=5.1e-5)


def test_a_fraction_just_above_it_worked():
    assert GRID["fp32-above"]["outcome"] == "ready"
    assert 0 < distance("fp32-above") < 0.03
    assert predict(exact_question("fp32-above")).verdict is Verdict.FITS
