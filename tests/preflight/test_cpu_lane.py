"""Preflight and recordings on the CPU lane, on the stand-in stack: a red one stops it, what was kept is replayed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sglgate.evidence import Evidence, Verdict
from sglgate.run import read_evidence
from tests.lane.lanes import CONFIG, FAKE_STACK, ROOT

FILL_AND_ALLOCATION = "[expect.kv]\nrelaunch = true\n"


class Lane:
    """Runs the CPU lane with one candidate, of the stand-in stack."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        model = folder / "model"
        model.mkdir()
        (model / "config.json").write_text(json.dumps(CONFIG))
        (folder / "fake.toml").write_text(
            f'name = "fake"\nreason = "a test"\nmodel = {json.dumps(str(model))}\n{FILL_AND_ALLOCATION}'
        )

    def run(self, marker: str, *options: str) -> tuple[int, str, list[Evidence]]:
        argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-m", marker, f"--stack={FAKE_STACK}"]
        argv += [f"--candidates={self.folder}", f"--reports={self.folder / 'reports'}", *options]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
        newest = sorted((self.folder / "reports").glob("*/"))[-1]
        return done.returncode, done.stdout + done.stderr, read_evidence(newest)


@pytest.fixture
def lane(tmp_path: Path) -> Lane:
    return Lane(tmp_path)


def test_a_stack_without_torch_and_a_model_without_weights_stop_the_lane_before_a_launch(lane: Lane) -> None:
    code, output, evidence = lane.run("cpu")

    verdicts = {e.gate: e.verdict for e in evidence if e.suite == "preflight"}
    assert code == 1, output
    assert verdicts["limits"] is verdicts["idle"] is Verdict.PASS, output
    assert verdicts["kernels"] is verdicts["two_ranks"] is verdicts["models"] is Verdict.FAIL
    reasons = {e.gate: e.reason for e in evidence}
    assert "No module named 'torch'" in reasons["kernels"]
    assert "no *.safetensors" in reasons["models"]
    assert {e.verdict for e in evidence if e.suite != "preflight"} == {Verdict.UNFIT}
    assert not list(lane.folder.glob("reports/*/logs/fake*")), "nothing was launched"


def test_what_a_run_recorded_is_judged_alike_by_the_same_gates(lane: Lane) -> None:
    marker = "cpu and (launch or kv)"
    node = lane.folder / "node"
    code, output, live = lane.run(marker, f"--record={node}")
    assert code == 0, output

    code, output, replayed = lane.run(marker, f"--replay={node}")

    assert code == 3, output
    of_log = {"as_declared", "allocated_on_every_rank", "equal_tokens", "figures_agree", "bytes_per_token"}
    passed = {e.gate for e in replayed if e.verdict is Verdict.PASS}
    assert passed >= of_log, output
    values = {(e.gate, e.metric): e.value for e in live}
    # To the millisecond: run.json rounds the phases of a launch.
    assert all(values[e.gate, e.metric] == pytest.approx(e.value, abs=1e-3) for e in replayed if e.gate in passed)
    left = {e.gate: e.reason for e in replayed if e.verdict is not Verdict.PASS}
    assert {e.verdict for e in replayed if e.gate in left} == {Verdict.NOT_EXERCISED}
    assert "needs a live server" in left["filled_without_retraction"]
    assert "needs a second launch" in left["two_launches_agree"]


def test_a_replay_cannot_be_recorded(lane: Lane) -> None:
    node = lane.folder / "node"
    node.mkdir()
    (node / "recording.json").write_text('{"about": "x", "made": "written"}')
    argv = [sys.executable, "-m", "pytest", "-m", "cpu", f"--replay={node}", f"--record={lane.folder / 'again'}"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 2
    assert "--replay: runs nothing to record" in done.stdout + done.stderr
