"""What the history is told of equal arms: the valid blocks, under a name that no other server or load shares."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from sglgate.config import Candidate
from sglgate.decision import CPU_VOID_RULES, Rule
from sglgate.speed.cells import Cell
from sglgate.speed.measure import ArmRun, BlockRun
from sglgate.speed.record import aa_detail, blocks_detail, noise_name

CLEAN = {"foreign_cpu_share": 0.0, "throttled_share": 0.0}
BUSY = {"foreign_cpu_share": 0.5, "throttled_share": 0.0}
CELL = Cell("chat", 4, 4, 32, "{prompt}")
RULE = Rule.at_least(0.9, design_effect=0.1, void_rules=CPU_VOID_RULES)


def arm(*rates, facts=CLEAN):
    results = [SimpleNamespace(usable=rate is not None, metrics=SimpleNamespace(tok_per_s=rate)) for rate in rates]
    return ArmRun("arm", Path("logs/arm.1.log"), {}, facts, {CELL.name: results})


RUNS = [
    BlockRun("AB", arm(10.0), arm(8.0)),
    BlockRun("BA", arm(10.0), arm(80.0, facts=BUSY)),
    BlockRun("BA", arm(10.0), arm(12.5)),
]


def test_the_history_gets_the_valid_blocks_of_equal_arms():
    found = aa_detail("noise", CELL.name, RULE, RUNS)

    assert found == {"aa_log_ratios": {"noise": [pytest.approx(math.log(0.8)), pytest.approx(math.log(1.25))]}}


def test_an_arm_in_turns_has_the_geometric_mean_and_none_where_one_turn_has_none():
    assert arm(8.0, 2.0).tok_per_s(CELL.name) == pytest.approx(4)
    assert arm(8.0, None).tok_per_s(CELL.name) is None


def test_without_a_valid_block_there_is_no_rate():
    found = blocks_detail(CELL.name, RULE, RUNS[1:2], str, arms=("before", "after"))

    assert (found["before_tok_per_s"], found["after_tok_per_s"]) == (None, None)
    assert "foreign load" in found["blocks"][0]["void"]


def test_noise_is_that_of_one_server_under_one_load():
    one = Candidate(name="c", profile="cpu", file="c.toml", reason="tests", model="m", arguments={"page-size": 1})
    other = one.model_copy(update={"arguments": {"page-size": 16}})
    names = {
        noise_name("launch", candidate, cell, turns)
        for candidate in (one, other)
        for cell in (CELL, replace(CELL, requests=8), replace(CELL, output_tokens=8))
        for turns in (0, 8)
    }

    assert len(names) == 12
