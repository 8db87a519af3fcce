"""How fast is it, launch after launch, and against the release that serves now?"""

from __future__ import annotations

import pytest

from fixtures.gate import Gate
from fixtures.lane import Lane
from fixtures.speed import History, judge_machine
from sglgate.config import Candidate
from sglgate.config.candidate import SpeedAgainstRelease, SpeedOverLaunches
from sglgate.decision import Order
from sglgate.errors import NotExercisedError, SglgateError
from sglgate.launch import LaunchError, LeftoverError
from sglgate.launch.pool import ServerPool
from sglgate.load import PromptSet
from sglgate.load.stats import judge_floor
from sglgate.speed.cells import Cell, prompts_of
from sglgate.speed.judge import declare, judge_speed
from sglgate.speed.launches import over_launches
from sglgate.speed.measure import BlockRun, run_arm, run_block
from sglgate.speed.record import blocks_detail, noise_name
from sglgate.speed.releases import AGAINST, CELL, before_of, metric_over_launches
from sglgate.stack import Stack
from sglgate.telemetry import Telemetry

pytestmark = [pytest.mark.relaunches, pytest.mark.usefixtures("whole_machine")]


def load_of(need: SpeedOverLaunches | SpeedAgainstRelease, lane: Lane) -> tuple[Cell, dict[str, PromptSet]]:
    """The load that a candidate asks for, and its prompts."""
    cell = Cell(need.kind, need.concurrency, need.requests, need.output_tokens, need.template)
    return cell, prompts_of(lane.root / "fixtures" / "prompts", [need.kind])


def test_speed_over_launches(
    candidate: Candidate, lane: Lane, pool: ServerPool, telemetry: Telemetry, gate: Gate
) -> None:
    """The whole interval over fresh launches holds the floor."""
    need = candidate.expect.speed
    assert need is not None
    cell, prompts = load_of(need, lane)
    seen = []
    for _ in range(need.launches):
        run = run_arm(pool, telemetry, candidate, [cell], prompts)
        gate.show_log(run.log)
        speed = run.tok_per_s(cell.name)
        if speed is None:
            raise SglgateError(f"{run.results[cell.name][0].reason} (log {run.log})")
        seen.append(speed)
    found = over_launches(seen)
    gate.judge(
        metric_over_launches(cell.name),
        found.value,
        need.min_tok_per_s,
        "at_least",
        "tok/s",
        verdict=judge_floor(found, need.min_tok_per_s),
        n=found.n,
        interval=found.interval,
        detail={"launches": seen},
    )


@pytest.mark.two_releases
def test_speed_against_release(
    candidate: Candidate,
    lane: Lane,
    pool: ServerPool,
    telemetry: Telemetry,
    gate: Gate,
    against: Stack,
    history: History,
) -> None:
    """The release that serves now against itself, then against the one to judge, in ABBA order."""
    need, before = candidate.expect.release, before_of(candidate)
    assert need is not None
    cell, prompts = load_of(need, lane)
    effect = need.design_effect or need.max_loss
    rule = declare(1 - need.max_loss, looks=need.looks, design_effect=effect, void_rules=telemetry.rules)
    noise = {cell.name: noise_name("launch", before, cell, need.turns)}

    def block(order: Order, arm: Candidate) -> BlockRun:
        run = run_block(pool, telemetry, before, arm, order, [cell], prompts, need.turns)
        gate.show_log(run.baseline.log)
        gate.show_log(run.candidate.log)
        return run

    def of_now(order: Order) -> BlockRun:
        try:
            return block(order, before)
        except LeftoverError:
            raise
        except LaunchError as error:
            raise NotExercisedError(f"the release that serves now does not serve this candidate: {error}") from error

    found = judge_speed(
        {cell.name: rule},
        of_now,
        lambda order: block(order, candidate),
        aa_looks=need.aa_looks,
        priors=history(against, noise),
    )
    judge_machine(gate, found, {cell.name: rule}, noise, against)
    assert found.family is not None
    fields = found.family.decisions[cell.name].evidence()
    gate.judge(
        f"{cell.name}: tok/s over that of the release that serves now",
        fields.pop("value"),
        fields.pop("bound"),
        fields.pop("direction"),
        fields.pop("unit"),
        detail=fields.pop("detail")
        | {AGAINST: against.digest, CELL: cell.name}
        | blocks_detail(cell.name, rule, found.runs, gate.log_name, arms=("before", "after")),
        **fields,
    )
