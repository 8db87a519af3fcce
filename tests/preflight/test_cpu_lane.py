"""Preflight and recordings on the CPU lane, on the stand-in stack: a red one stops it, what was kept is replayed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sglgate.evidence import Evidence, Verdict
from sglgate.resume import read_earlier
from sglgate.run import Run, RunInfo, now, read_evidence
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


def test_workers_wait_for_preflight_and_launch_nothing_on_a_red_one(lane: Lane) -> None:
    second = (lane.folder / "fake.toml").read_text().replace(
        'name = "fake"', 'name = "other"'
    ) + "[arguments]\ntp-size = 1\n"
    (lane.folder / "other.toml").write_text(second)

    code, output, evidence = lane.run("cpu and (preflight or launch)", "-n", "2")

    assert code == 1, output
    later = [e for e in evidence if e.suite == "launch"]
    assert {e.candidate for e in later} == {"fake", "other"}
    assert all("preflight is red" in e.reason for e in later), [e.reason for e in later]
    assert not list(lane.folder.glob("reports/*/logs/fake*"))


def test_a_run_that_is_taken_up_again_judges_the_machine_anew(tmp_path: Path) -> None:
    run = Run.begin(tmp_path, RunInfo(name="run", profile="cpu", sglgate="0", started=now()))
    for suite in ("preflight", "kv"):
        fields = {"metric": "m", "value": 1, "bound": 1, "direction": "equal", "unit": "", "reason": ""}
        names = {"run": "run", "profile": "cpu", "candidate": "", "suite": suite, "gate": "g", "test": suite}
        run.add(Evidence(at=now(), verdict=Verdict.PASS, **names, **fields))
        run.note_test(suite, 1.0)
    run.close(1)

    assert read_earlier(tmp_path / "run").judged == {"kv"}
