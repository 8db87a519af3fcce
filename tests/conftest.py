"""What the tests of sglgate share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sglgate.config import Candidate, Profile
from sglgate.launch import Server
from sglgate.stack import Stack, read_stack

FAKE_STACK = Path(__file__).parent / "fake_stack" / "python"


@pytest.fixture(autouse=True)
def _own_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test touches the cache, the lock or the stack of the person who runs it."""
    monkeypatch.setenv("SGLGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SGLGATE_LOCK", str(tmp_path / "node.lock"))
    monkeypatch.delenv("SGLGATE_STACK", raising=False)
    monkeypatch.delenv("SGLGATE_STORE", raising=False)
    monkeypatch.setenv("FAKE_PYTHON", sys.executable)


@pytest.fixture(scope="session")
def stack_python() -> Path:
    """The CPU stack's interpreter: ``SGLGATE_STACK``, or the one that ci/quickstart makes."""
    default = Path(__file__).parents[1] / ".stacks" / "cpu" / "bin" / "python"
    python = Path(os.environ.get("SGLGATE_STACK", default))
    if not python.exists():
        pytest.skip(f"no stack at {python}; set SGLGATE_STACK to the interpreter of one")
    return python


@pytest.fixture
def fake_stack() -> Stack:
    """The stand-in for an interpreter with sglang."""
    return read_stack(FAKE_STACK)


@pytest.fixture
def profile() -> Profile:
    """A lane without GPUs and with short deadlines."""
    deadlines = {"process_s": 20, "weights_s": 5, "kv_s": 5, "graphs_s": 5, "first_token_s": 3, "stop_s": 2}
    return Profile.model_validate({"name": "cpu", "reason": "tests", "deadlines": deadlines})


@pytest.fixture
def make_server(fake_stack: Stack, profile: Profile, tmp_path: Path) -> Callable[..., Server]:
    """Builds a stand-in server with the given faults; not started."""

    def make(*faults: str, environment: dict[str, str] | None = None, **arguments: int) -> Server:
        candidate = Candidate.model_validate(
            {
                "name": "fake",
                "profile": "cpu",
                "file": "fake.toml",
                "reason": "tests",
                "model": "model",
                "arguments": {key.replace("_", "-"): value for key, value in arguments.items()},
                "environment": {"FAKE": ",".join(faults), **(environment or {})},
            }
        )
        return Server(candidate, profile, fake_stack, "model", tmp_path / "server.log")

    return make
