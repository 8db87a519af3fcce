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

    found = judge_speed(
        rules_of(speed, telemetry.rules),
        lambda order: block(order, baseline),
        lambda order: block(order, candidate),
        aa_looks=speed.aa_looks,
        may_differ=need.may_differ,
    )
    for cell, fit in found.fitness.items():
        verdict = fit.verdict or Verdict.UNFIT
        gate.judge(
            f"{cell}: equal arms differ by",
            abs(fit.drift) if fit.drift is not None else None,
            fit.drift_limit,
            "at_most",
            "ratio",
            verdict=verdict,
            reason=fit.reason,
            n=fit.n,
        )
    assert found.family is not None
    # Green cells first: a red one ends the test, and the board shall show all that was measured.
    green_first = sorted(found.family.decisions.items(), key=lambda item: item[1].verdict is not Verdict.PASS)
    for cell, decision in green_first:
        fields = decision.evidence() if decision.is_final else decision.cut("another cell ended it").evidence()
        why = explain_cell(
            cell,
            found.runs,
            target_ratio=max(1.0, speed.bounds[cell]),
            all_reduces_per_verify=need.all_reduces_per_verify,
        )
        bound = fields.pop("bound")
        blocks = [
            {
                "order": run.order,
                "plain_tok_per_s": run.baseline.tok_per_s(cell),
                "speculative_tok_per_s": run.candidate.tok_per_s(cell),
                "logs": [gate.log_name(arm.log) for arm in (run.baseline, run.candidate)],
            }
            for run in found.runs
        ]
        kind, _, users = cell.partition("@")
        detail = {**fields.pop("detail"), "kind": kind, "concurrency": int(users), "blocks": blocks}
        words = [fields.pop("reason"), *(why.sentences() if why else ("no stream to explain it from",))]
        if bound < 1 and cell in speed.min_ratio:
            words.append(f"The bound lets speculation lose: {speed.slower_because}")
        gate.judge(
            f"{cell}: speculative / plain tok/s",
            fields.pop("value"),
            bound,
            fields.pop("direction"),
            fields.pop("unit"),
            reason=" ".join(words),
            detail=detail,
            **fields,
        )
