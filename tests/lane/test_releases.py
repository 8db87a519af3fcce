"""Two releases whose launches take turns: a slower one is red and sized, whatever the machine's pace does meanwhile."""

from __future__ import annotations

import pytest

from sglgate.evidence import Evidence, Verdict
from sglgate.run import read_run
from tests.lane.lanes import FAKE_STACK, Lane, Outcome

SPEED = """[expect.kv]
fill = 0
[expect.release]
requests = 1
output_tokens = 6
max_loss = {max_loss}
looks = [2, 4]
aa_looks = [2, 4]
turns = {turns}
"""
RATIO = "chat@1: tok/s over that of the release that serves now"


@pytest.fixture
def judged(lane: Lane):
    """A run in which ``after`` (variables of the stand-in) is held against the stand-in as it is."""

    def run(turns: int, *options: str, max_loss: float = 0.05, **after: str) -> Outcome:
        lane.candidate(environment='FAKE_STEP_MS = "40"', text=SPEED.format(turns=turns, max_loss=max_loss))
        python = lane.folder / "python"
        exports = "".join(f"export {name}='{value}'\n" for name, value in after.items())
        python.write_text(f'#!/bin/sh\n{exports}exec {FAKE_STACK} "$@"\n')
        python.chmod(0o755)
        outcome = lane.run("-k", "against_release", f"--stack={python}", f"--against={FAKE_STACK}", *options)
        if "the client is the limit" in outcome.output or "foreign load" in outcome.output:
            pytest.skip("other work holds this machine up: the lane calls it UNFIT, as it should")
        return outcome

    return run


def ratio(outcome: Outcome) -> Evidence:
    (record,) = [e for e in outcome.evidence if e.metric == RATIO]
    return record


@pytest.mark.parametrize("turns", [0, 2])
def test_a_release_that_is_a_fifth_slower_is_red_and_sized(judged, turns: int) -> None:
    outcome = judged(turns, FAKE_SLOWER="1.25")

    found = ratio(outcome)
    assert outcome.code == 1
    assert found.verdict is Verdict.FAIL, found.reason
    assert found.interval is not None
    assert found.interval[0] - 0.01 <= 0.8 <= found.interval[1] + 0.01
    assert len(found.detail["blocks"]) == found.n >= 2
    assert outcome.folder is not None
    info = read_run(outcome.folder)
    assert info.against == info.stack  # of one digest: what differs are variables
    names = [launch["candidate"] for launch in info.launches]
    # A/A first: both arms are the release that serves now.
    assert set(names[:4]) == {"fake--before"}
    assert names.count("fake") == found.n


def test_an_equal_release_is_green_with_its_noise_kept_for_the_history(judged) -> None:
    outcome = judged(2)

    found = ratio(outcome)
    assert outcome.code == 0, outcome.output
    assert found.value == pytest.approx(1, abs=0.03)
    (equal,) = [e for e in outcome.evidence if e.metric == "chat@1: equal arms differ by"]
    (blocks,) = equal.detail["aa_log_ratios"].values()
    assert len(blocks) == equal.n


def test_a_release_of_now_that_does_not_serve_the_candidate_leaves_nothing_compared(judged, lane: Lane) -> None:
    broken = lane.folder / "broken"
    broken.write_text(f'#!/bin/sh\nexport FAKE=oom\nexec {FAKE_STACK} "$@"\n')
    broken.chmod(0o755)
    outcome = judged(0, f"--against={broken}")

    (record,) = outcome.evidence
    assert record.verdict is Verdict.NOT_EXERCISED
    assert "the release that serves now does not serve this candidate" in record.reason
    assert "kv_budget_exhausted" in record.reason


def test_without_a_release_to_compare_with_there_is_no_such_gate(lane: Lane) -> None:
    lane.candidate(text=SPEED.format(turns=0, max_loss=0.05))
    outcome = lane.run("--collect-only", "-q")

    assert "as_declared" in outcome.output
    assert "speed_against_release" not in outcome.output


def test_that_nobody_asks_to_be_held_against_the_release_is_said(lane: Lane) -> None:
    lane.candidate()
    outcome = lane.run(f"--against={FAKE_STACK}", "-k", "as_declared")

    assert outcome.code == 0, outcome.output
    said = "held against the speed of sglang 0.5.23: no candidate, as none of this run has [expect.release]"
    assert said in outcome.output


@pytest.mark.parametrize("option", ["--replay=fixtures/replay/blackwell-good", "--attach=http://127.0.0.1:9"])
def test_what_cannot_take_turns_is_misuse(lane: Lane, option: str) -> None:
    lane.candidate(text=SPEED.format(turns=0, max_loss=0.05))
    outcome = lane.run(f"--against={FAKE_STACK}", option)

    assert outcome.code == 2
    assert "--against" in outcome.output
    assert outcome.folder is None
