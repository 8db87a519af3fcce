"""Bringup: which steps it takes, that the first red stops it, and what it leaves behind."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from sglgate import bringup
from sglgate.bringup import Outcome, Step, run_step, steps_of
from sglgate.cli import main
from sglgate.config import Candidate, load_candidates, load_profiles
from sglgate.errors import MisuseError
from sglgate.preflight import ask
from sglgate.preflight import facts as preflight_facts
from sglgate.preflight.facts import NodeFacts

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "fixtures" / "replay" / "blackwell-good"
FAKE_STACK = ROOT / "tests" / "fake_stack" / "python"
PROFILES = load_profiles(ROOT / "fixtures" / "profiles")


def candidate(name: str, tp: int = 1, **rest: object) -> Candidate:
    data = {"name": name, "profile": "cpu", "file": "f", "reason": "r", "model": "m", "arguments": {"tp-size": tp}}
    return Candidate.model_validate(data | rest)


PATH = {"expect": {"allreduce": {"path": "gloo"}}}
MUST_FAIL = {"expect": {"failure": {"cause": "kv_budget_exhausted", "reason": "r", "link": "l"}}}


def test_preflight_comes_first_then_the_plainest_server_then_paths_by_ranks() -> None:
    steps = steps_of(
        [
            candidate("eight", 8, **PATH),
            candidate("small-tuned", arguments={"tp-size": 1, "page-size": 16}),
            candidate("small"),
            candidate("must-fail", **MUST_FAIL),
            candidate("two", 2, **PATH),
            candidate("two-again", 2, suites=["allreduce"], **PATH),
        ]
    )

    assert [(step.name, step.candidates) for step in steps] == [
        ("preflight", ()),
        ("smallest model: small", ("small",)),
        ("all-reduce paths at TP2", ("two", "two-again")),
        ("all-reduce paths at TP8", ("eight",)),
    ]
    assert steps[2].arguments(PROFILES["blackwell"])[:2] == ["-m", "blackwell and (launch or allreduce)"]


def test_candidates_for_another_release_are_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, release in (("old", "<0.5.20"), ("new", ">=0.5.20")):
        (tmp_path / f"{name}.toml").write_text(f'name = "{name}"\nreason = "r"\nmodel = "m"\nsglang = "{release}"\n')
    asked: list[Step] = []
    monkeypatch.setattr(bringup, "run_step", lambda step, *rest: asked.append(step) or Outcome(step, 0, tmp_path, ()))
    monkeypatch.setattr(ask, "kernels", lambda *rest: None)
    monkeypatch.setattr(preflight_facts, "facts_of", lambda *rest: NodeFacts("cpu", "now", "6.8"))

    argv = ["bringup", "--profile", "cpu", "--root", str(ROOT), "--facts", str(tmp_path / "facts.json")]
    assert main([*argv, "--candidates", str(tmp_path), "--stack", str(FAKE_STACK), "--record", str(RECORDED)]) == 0
    assert [step.candidates for step in asked] == [(), ("new",)]


def test_without_a_candidate_to_launch_there_is_no_bringup() -> None:
    with pytest.raises(MisuseError):
        steps_of([candidate("must-fail", **MUST_FAIL)])


def test_the_cpu_lane_has_all_its_steps() -> None:
    steps = steps_of(load_candidates(ROOT / "fixtures" / "candidates" / "cpu", PROFILES["cpu"]))

    assert [step.name for step in steps][:2] == ["preflight", "smallest model: smollm2"]
    assert any("TP2" in step.name for step in steps)


def test_the_node_that_is_missing_stops_it_at_the_first_step(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = main(
        [
            *("bringup", "--profile", "blackwell", "--root", str(ROOT), "--reports", str(tmp_path / "reports")),
            *("--facts", str(tmp_path / "facts.json"), "--stack", str(FAKE_STACK), "--json"),
        ]
    )

    out = capfd.readouterr()
    answer = json.loads(out.out)
    assert code == 1
    assert [step["step"] for step in answer["steps"]] == ["preflight"]
    assert len(answer["planned"]) >= 3
    assert "8 GPUs needed" in answer["steps"][0]["reasons"][0]
    assert "stopped at 'preflight'" in out.err
    assert not (tmp_path / "facts.json").exists()


def test_green_steps_go_on_write_the_facts_and_the_first_red_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done: list[str] = []

    def pretend(step: Step, *rest: object) -> Outcome:
        done.append(step.name)
        red = "TP" in step.name
        return Outcome(step, int(red), tmp_path, ("one kv/x: FAIL: because",) if red else ())

    monkeypatch.setattr(bringup, "run_step", pretend)
    facts = tmp_path / "facts.json"
    argv = ["bringup", "--profile", "blackwell", "--root", str(ROOT), "--facts", str(facts)]
    argv += ["--record", str(RECORDED), "--stack", str(FAKE_STACK)]

    assert main(argv) == 1
    assert "TP" in done[-1]
    assert len(done) == 3, "nothing after the first red"
    assert "because" in capsys.readouterr().out
    found = TypeAdapter(NodeFacts).validate_json(facts.read_text())
    assert (found.driver, len(found.cards), found.loaded_sm_mhz) == ("580.95.05", 8, 2244.0)


def test_a_step_that_leaves_no_run_is_red(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/true")

    outcome = run_step(Step("x", ("launch",)), PROFILES["cpu"], ROOT, tmp_path, [])

    assert outcome.exit_code == 1
    assert "no evidence" in outcome.reasons[0]
