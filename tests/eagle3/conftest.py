"""Speculation on the stand-in stack: a candidate with its faults, and a pool that launches it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sglgate.config import Candidate, Profile
from sglgate.launch.pool import ServerPool
from sglgate.launch.server import Server
from sglgate.node import Live
from sglgate.stack import Stack
from sglgate.telemetry import Telemetry

SPECULATION = {
    "speculative-algorithm": "EAGLE3",
    "speculative-draft-model-path": "draft",
    "speculative-num-steps": 3,
    "speculative-eagle-topk": 1,
    "speculative-num-draft-tokens": 4,
}


@pytest.fixture
def spec_candidate() -> Callable[..., Candidate]:
    """A speculating candidate of the stand-in: 10 ms a plain step, 12 ms a round."""

    def make(*faults: str, **environment: str) -> Candidate:
        return Candidate(
            name="spec",
            profile="cpu",
            file="spec.toml",
            reason="tests",
            model="model",
            arguments={"max-running-requests": 8, **SPECULATION},
            environment={"FAKE": ",".join(faults), "FAKE_STEP_MS": "10", "FAKE_ROUND_MS": "12", **environment},
        )

    return make


@pytest.fixture
def fake_pool(fake_stack: Stack, profile: Profile, tmp_path: Path) -> Iterator[ServerPool]:
    """Launches stand-in servers; the last is stopped afterwards."""
    pool = ServerPool(lambda candidate, log, slots: Server(candidate, profile, fake_stack, "model", log), tmp_path)
    yield pool
    pool.stop()


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    """Watches this machine."""
    with Telemetry(Live(gpus=False)) as telemetry:
        yield telemetry
