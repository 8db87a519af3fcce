"""Does speculation pay against the same server without it? The machine is judged first."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.gate import Gate
from sglgate.config import Candidate
from sglgate.config.eagle3 import Eagle3Need
from sglgate.eagle3.arms import baseline_of
from sglgate.eagle3.cells import cells_of, prompts_of, rules_of
from sglgate.eagle3.judge import judge_speed
from sglgate.eagle3.measure import BlockRun, run_block
from sglgate.eagle3.record import aa_detail, cell_detail
from sglgate.eagle3.why import explain_cell
from sglgate.evidence import Verdict
from sglgate.launch.pool import ServerPool
from sglgate.telemetry import Telemetry

pytestmark = [pytest.mark.relaunches, pytest.mark.usefixtures("whole_machine")]


def test_speed_against_baseline(
    candidate: Candidate,
    pool: ServerPool,
    telemetry: Telemetry,
    need: Eagle3Need,
    gate: Gate,
    prompt_folder: Path,
) -> None:
    """Plain against plain, then plain against speculative, in ABBA order, until each cell's rule decides."""
    speed = need.speed
    assert speed is not None
    baseline, cells = baseline_of(candidate), cells_of(need)
    prompts = prompts_of(prompt_folder, (cell.kind for cell in cells))

    def block(order: str, arm: Candidate) -> BlockRun:
        run = run_block(pool, telemetry, baseline, arm, order, cells, prompts)
        gate.show_log(run.baseline.log)
        gate.show_log(run.candidate.log)
        return run

    rules = rules_of(speed, telemetry.rules)
    found = judge_speed(
        rules,
        lambda order: block(order, baseline),
        lambda order: block(order, candidate),
        aa_looks=speed.aa_looks,
        may_differ=need.may_differ,
    )
    # Green cells first: a red one ends the test, and the page shall show all that was measured.
    for cell, fit in sorted(found.fitness.items(), key=lambda item: item[1].verdict is not Verdict.PASS):
        gate.judge(
            f"{cell}: equal arms differ by",
            abs(fit.drift) if fit.drift is not None else None,
            fit.drift_limit,
            "at_most",
            "ratio",
            verdict=fit.verdict or Verdict.UNFIT,
            reason=fit.reason,
            n=fit.n,
            detail=aa_detail(cell, rules[cell], found.aa_runs),
        )
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
