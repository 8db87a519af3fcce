"""Does speculation pay against the same server without it? The machine is judged first."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.gate import Gate
from fixtures.speed import History, judge_machine
from sglgate.config import Candidate
from sglgate.config.eagle3 import Eagle3Need
from sglgate.decision import Order
from sglgate.eagle3.arms import baseline_of, require_equal_arms
from sglgate.eagle3.cells import cells_of, rules_of
from sglgate.eagle3.record import cell_detail
from sglgate.eagle3.why import explain_cell
from sglgate.evidence import Verdict
from sglgate.launch.pool import ServerPool
from sglgate.speed.cells import prompts_of
from sglgate.speed.judge import judge_speed
from sglgate.speed.measure import BlockRun, run_block
from sglgate.speed.record import noise_name
from sglgate.stack import Stack
from sglgate.telemetry import Telemetry

pytestmark = [pytest.mark.relaunches, pytest.mark.usefixtures("whole_machine")]


def test_speed_against_baseline(
    candidate: Candidate,
    pool: ServerPool,
    telemetry: Telemetry,
    need: Eagle3Need,
    gate: Gate,
    stack: Stack,
    history: History,
    prompt_folder: Path,
) -> None:
    """Plain against plain, then plain against speculative, in ABBA order, until each cell's rule decides."""
    speed = need.speed
    assert speed is not None
    baseline, cells = baseline_of(candidate), cells_of(need)
    prompts = prompts_of(prompt_folder, (cell.kind for cell in cells))

    def block(order: Order, arm: Candidate) -> BlockRun:
        run = run_block(pool, telemetry, baseline, arm, order, cells, prompts)
        gate.show_log(run.baseline.log)
        gate.show_log(run.candidate.log)
        return run

    def compared(order: Order) -> BlockRun:
        run = block(order, candidate)
        require_equal_arms(run.baseline.info, run.candidate.info, need.may_differ)
        return run

    rules = rules_of(speed, telemetry.rules)
    noise = {cell.name: noise_name("eagle3", baseline, cell) for cell in cells}
    found = judge_speed(
        rules,
        lambda order: block(order, baseline),
        compared,
        aa_looks=speed.aa_looks,
        priors=history(stack, noise),
    )
    judge_machine(gate, found, rules, noise, stack)
    assert found.family is not None
    by_name = {cell.name: cell for cell in cells}
    for name, decision in sorted(found.family.decisions.items(), key=lambda item: item[1].verdict is not Verdict.PASS):
        fields = decision.evidence() if decision.is_final else decision.cut("another cell ended it").evidence()
        why = explain_cell(
            name,
            found.runs,
            target_ratio=max(1.0, speed.bounds[name]),
            all_reduces_per_verify=need.all_reduces_per_verify,
        )
        bound = fields.pop("bound")
        words = [fields.pop("reason"), *(why.sentences() if why else ("no stream to explain it from",))]
        if bound < 1 and name in speed.min_ratio:
            words.append(f"The bound lets speculation lose: {speed.slower_because}")
        gate.judge(
            f"{name}: speculative / plain tok/s",
            fields.pop("value"),
            bound,
            fields.pop("direction"),
            fields.pop("unit"),
            reason=" ".join(words),
            detail=fields.pop("detail") | cell_detail(by_name[name], rules[name], found.runs, why, gate.log_name),
            **fields,
        )
