"""How fast is it, launch after launch? By its interval a sign-off tells a slower release from a noisy machine."""

from __future__ import annotations

import pytest

from fixtures.gate import Gate
from fixtures.lane import Lane
from sglgate.config import Candidate
from sglgate.eagle3.cells import Cell, prompts_of
from sglgate.eagle3.measure import run_arm
from sglgate.errors import SglgateError
from sglgate.launch.pool import ServerPool
from sglgate.load.launches import over_launches
from sglgate.load.stats import judge_floor
from sglgate.telemetry import Telemetry

pytestmark = [pytest.mark.relaunches, pytest.mark.usefixtures("whole_machine")]


def test_speed_over_launches(
    candidate: Candidate, lane: Lane, pool: ServerPool, telemetry: Telemetry, gate: Gate
) -> None:
    """The whole interval over fresh launches holds the floor."""
    need = candidate.expect.speed
    assert need is not None
    cell = Cell(need.kind, need.concurrency, need.requests, need.output_tokens, "{prompt}")
    prompts = prompts_of(lane.root / "fixtures" / "prompts", [need.kind])
    seen = []
    for _ in range(need.launches):
        run = run_arm(pool, telemetry, candidate, [cell], prompts)
        gate.show_log(run.log)
        speed = run.tok_per_s(cell.name)
        if speed is None:
            raise SglgateError(f"{run.results[cell.name].reason} (log {run.log})")
        seen.append(speed)
    found = over_launches(seen)
    gate.judge(
        f"{cell.name}, tok/s over launches",
        found.value,
        need.min_tok_per_s,
        "at_least",
        "tok/s",
        verdict=judge_floor(found, need.min_tok_per_s),
        n=found.n,
        interval=found.interval,
        detail={"launches": seen},
    )
