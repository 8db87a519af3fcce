"""What the page and the store read in the evidence: every block, rates over the valid ones."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from sglgate.decision import CPU_VOID_RULES, Rule
from sglgate.eagle3.record import cell_detail
from sglgate.eagle3.why import explain_cell
from sglgate.load.results import Acceptance
from sglgate.load.stats import Summary
from sglgate.speed.cells import Cell
from sglgate.speed.measure import ArmRun, BlockRun

CLEAN = {"foreign_cpu_share": 0.0, "throttled_share": 0.0}
BUSY = {"foreign_cpu_share": 0.5, "throttled_share": 0.0}
CELL = Cell("chat", 4, 4, 32, "{prompt}")
RULE = Rule.at_least(0.9, design_effect=0.1, void_rules=CPU_VOID_RULES)
ACCEPTANCE = Acceptance(accept_length=1.5, per_request=Summary.of([1.5]), verify_steps=40, position_rates=(0.4, 0.1))


def arm(rate, facts=CLEAN, accepted=None):
    gap = Summary.of([1000 / rate]) if rate else None
    metrics = SimpleNamespace(tok_per_s=rate, gap_ms=gap, acceptance=accepted)
    result = SimpleNamespace(usable=rate is not None, metrics=metrics)
    return ArmRun("arm", Path("logs/arm.1.log"), {}, facts, {CELL.name: [result]})


def run(plain, speculative, order="AB", facts=CLEAN):
    return BlockRun(order, arm(plain), arm(speculative, facts, ACCEPTANCE))


RUNS = [run(10.0, 8.0), run(10.0, 80.0, "BA", BUSY), run(10.0, 12.5, "BA")]


def test_a_cell_shows_every_block_and_its_rates_leave_the_void_ones_out():
    found = cell_detail(CELL, RULE, RUNS, explain_cell(CELL.name, RUNS, target_ratio=1), str)
    assert (found["kind"], found["concurrency"]) == ("chat", 4)
    assert found["plain_tok_per_s"] == pytest.approx(10)
    assert found["speculative_tok_per_s"] == pytest.approx(10)
    assert [block["ratio"] for block in found["blocks"]] == pytest.approx([0.8, 8.0, 1.25])
    assert [bool(block["void"]) for block in found["blocks"]] == [False, True, False]
    assert "foreign load" in found["blocks"][1]["void"]
    assert found["blocks"][0]["logs"] == ["logs/arm.1.log"] * 2
    assert found["acceptance"] == {"mean": 1.5, "positions": [0.4, 0.1]}
    assert found["cost"]["plain_ms"] == pytest.approx(100)


def test_what_was_not_measured_is_null_and_no_number():
    runs = [run(10.0, None)]
    found = cell_detail(CELL, RULE, runs, explain_cell(CELL.name, runs, target_ratio=1), str)
    assert found["speculative_tok_per_s"] is None
    assert found["blocks"][0]["ratio"] is None
    assert found["cost"] is None
