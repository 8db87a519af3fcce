"""What the EAGLE-3 tests share: acceptance seen on the running server, and both arms' answers. Each is taken once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixtures.gate import Gate
from fixtures.lane import Lane
from sglgate.config import Candidate
from sglgate.config.eagle3 import Eagle3Need
from sglgate.eagle3.acceptance import AcceptanceEstimate, estimate
from sglgate.eagle3.both import BothArms, ask_both
from sglgate.errors import SglgateError
from sglgate.evidence import Verdict
from sglgate.launch import Server
from sglgate.launch.pool import ServerPool
from sglgate.load import run_load
from sglgate.speed.cells import Cell, prompts_of


@pytest.fixture
def need(candidate: Candidate) -> Eagle3Need:
    """What the candidate expects of speculation."""
    assert candidate.expect.eagle3 is not None
    return candidate.expect.eagle3


@pytest.fixture(scope="session")
def prompt_folder(lane: Lane) -> Path:
    """The fixed prompt sets."""
    return lane.root / "fixtures" / "prompts"


@pytest.fixture(scope="session")
def _taken() -> dict[str, Any]:
    return {}


@pytest.fixture
def accepted(
    server: Server, need: Eagle3Need, gate: Gate, prompt_folder: Path, _taken: dict[str, Any]
) -> AcceptanceEstimate:
    """Acceptance on the candidate's server, over the kinds that it names."""
    gate.show_log(server.log)
    key = f"acceptance {server.log}"
    if key not in _taken:
        wanted, requests = need.acceptance, []
        prompts = prompts_of(prompt_folder, wanted.kinds)
        for kind in wanted.kinds:
            cell = Cell(kind, 1, wanted.requests, wanted.output_tokens, need.template)
            result = run_load(cell.plan(server.client.base_url, prompts))
            # UNFIT is about time, and acceptance has none.
            if result.verdict is Verdict.FAIL:
                raise SglgateError(f"{kind}: {result.reason}")
            requests += result.measured
        _taken[key] = estimate(requests)
    return _taken[key]


@pytest.fixture
def both(
    candidate: Candidate,
    pool: ServerPool,
    need: Eagle3Need,
    gate: Gate,
    prompt_folder: Path,
    _taken: dict[str, Any],
) -> BothArms:
    """Both arms, asked the same."""
    key = f"answers {candidate.name}"
    if key not in _taken:
        prompts, plain_sides = prompts_of(prompt_folder, need.answers.kinds), _taken.setdefault("plain sides", {})
        _taken[key] = ask_both(pool, candidate, need, prompts, plain_sides)
    for log in _taken[key].logs:
        gate.show_log(log)
    return _taken[key]
