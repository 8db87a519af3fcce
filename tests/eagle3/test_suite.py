"""suites/eagle3 as a whole, run by pytest against the stand-in: a sound pair is green, each fault red and named."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglgate.evidence import Evidence, Verdict
from sglgate.run import read_run
from tests.eagle3.judging import ROOT, judge, red

FAKE_STACK = ROOT / "tests/fake_stack/python"
CANDIDATE = """
name = "spec"
reason = "a test"
model = "./model"
[arguments]
max-running-requests = 8
speculative-algorithm = "EAGLE3"
speculative-draft-model-path = "draft"
speculative-num-steps = 3
speculative-eagle-topk = 1
speculative-num-draft-tokens = 4
[environment]
FAKE = "{faults}"
FAKE_STEP_MS = "4"
{environment}
[expect.kv]
fill = 0
[expect.eagle3]
[expect.eagle3.answers]
kinds = ["chat"]
tokens = 24
{answers}
[expect.eagle3.acceptance]
requests = 3
output_tokens = 24
min_mean = 1.3
{more}
"""


def judged(
    folder: Path, faults: str = "", environment: str = "", more: str = "", answers: str = "", drop: str = "\\0"
) -> list[Evidence]:
    """The stand-in with these faults, judged."""
    text = CANDIDATE.replace(drop, "").format(faults=faults, environment=environment, more=more, answers=answers)
    (folder / "spec.toml").write_text(text)
    return judge(folder, FAKE_STACK)


def test_a_sound_pair_is_green_in_every_check(tmp_path):
    evidence = judged(tmp_path)
    assert red(evidence) == {}
    assert {e.gate for e in evidence} == {
        "draft_is_accepted", "mean_above_floor", "equal_arms", "greedy", "max_tokens_inside_a_run", "eos_inside_a_run",
        "stop_strings", "logprobs", "json_constrained", "abort_in_flight",
    }  # fmt: skip
    assert all(e.logs for e in evidence)


def test_every_way_to_answer_differently_turns_its_gate_red(tmp_path):
    faults = "wrong-accept,runs-past-stop,runs-past-length,ignores-abort,wrong-logprobs,breaks-json,random-draft"
    found = red(judged(tmp_path, faults))
    assert "token 9 is" in found["greedy"]
    assert "not by the abort" in found["abort_in_flight"]
    assert "constrained to JSON" in found["json_constrained"]
    assert "logprob of token 0" in found["logprobs"]
    assert "tokens, " in found["max_tokens_inside_a_run"] or "not None" in found["max_tokens_inside_a_run"]
    assert found["stop_strings"].startswith("FAIL")
    assert found["eos_inside_a_run"].startswith("FAIL")
    assert "acceptance 1.0 with a healthy server" in found["draft_is_accepted"]
    assert found["mean_above_floor"].startswith("FAIL")


def test_a_near_tie_of_the_target_is_reported_and_green(tmp_path):
    evidence = judged(tmp_path, "tie", 'FAKE_NEAR_TIES = "1"')
    greedy = next(e for e in evidence if e.gate == "greedy")
    assert greedy.verdict is Verdict.PASS
    assert len(greedy.detail["ties"]) == 2
    assert "0.050 nats" in greedy.reason


def test_running_requests_that_nobody_pinned_are_red_by_name(tmp_path):
    found = red(judged(tmp_path, drop="max-running-requests = 8\n"))
    assert list(found) == ["equal_arms"]
    assert "max_running_requests: None without speculation, 48 with it" in found["equal_arms"]


def test_a_sampled_distribution_cannot_be_asked_for_on_a_cpu(tmp_path):
    found = red(judged(tmp_path, answers="sampled = true"))
    assert list(found) == ["sampled_distribution"]
    assert found["sampled_distribution"].startswith("NOT_EXERCISED")
    assert "verifies greedily on a CPU" in found["sampled_distribution"]


@pytest.mark.parametrize(("faults", "verdicts"), [("noisy-launch", {"UNFIT"}), ("slow-step", {"FAIL", "UNFIT"})])
def test_a_noisy_machine_and_a_slow_candidate_are_never_green(tmp_path, faults, verdicts):
    speed = (
        '[expect.eagle3.speed]\nmax_loss = {"chat@1" = 0.02}\nrequests = 3\noutput_tokens = 24\n'
        "looks = [2]\naa_looks = [2]\ndesign_effect = 0.02\n"
    )
    rounds = 'FAKE_ROUND_MS = "30"' if faults == "slow-step" else ""
    evidence = [e for e in judged(tmp_path, faults, rounds, speed) if e.gate == "speed_against_baseline"]
    assert evidence[-1].verdict in verdicts, evidence[-1].reason


def test_the_plain_server_is_asked_once_for_all_settings_that_ask_the_same(tmp_path):
    fields = {"faults": "", "environment": "", "more": "", "answers": ""}
    text = CANDIDATE.format(**fields)
    (tmp_path / "five.toml").write_text(
        text.replace('name = "spec"', 'name = "five"')
        .replace("num-steps = 3", "num-steps = 5")
        .replace("draft-tokens = 4", "draft-tokens = 6")
    )

    evidence = judged(tmp_path)

    assert red(evidence) == {}
    assert {e.candidate for e in evidence if e.gate == "greedy"} == {"five", "spec"}
    (run,) = (tmp_path / "reports").glob("*/")
    assert [launch["candidate"] for launch in read_run(run).launches] == ["five", "five--plain", "spec"]
