"""A run that was cut goes on where it stopped, as one run with one folder."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from junitparser import JUnitXml

from sglgate.run import read_evidence, read_run, read_tests
from tests.lane.lanes import Lane, marked


def cut(lane: Lane, how: signal.Signals = signal.SIGINT, records: int = 3) -> None:
    """Run the lane, and end it in the middle; nothing of it is left."""
    mark = f"{lane.folder.parent.name}-{os.getpid()}"
    process = lane.start(mark)
    lane.await_evidence(records)
    process.send_signal(how)
    process.communicate(timeout=30)
    deadline = time.monotonic() + 10
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert marked(mark) == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_cut_run_goes_on_and_judges_nothing_twice(lane: Lane, how: signal.Signals) -> None:
    lane.candidate()
    cut(lane, how)
    folder = lane.newest()
    assert folder is not None
    before = read_tests(folder)
    first = {e.test: e.at for e in read_evidence(folder) if e.test in before}
    assert first

    outcome = lane.run("--resume", str(folder))

    assert outcome.code == 0, outcome.output
    assert outcome.folder == folder, "the same folder"
    evidence = read_evidence(folder)
    assert {e.test: e.at for e in evidence if e.test in first} == first, "what was judged was judged again"
    tests = [e.test for e in evidence]
    uncut = lane.run()
    assert sorted(tests) == sorted(e.test for e in uncut.evidence)
    info = read_run(folder)
    assert info.finished
    assert info.exit_code == 0
    assert [entry["judged_before"] for entry in info.resumed] == [len(first)]
    assert f"{len(first)} tests judged before" in outcome.output
    (suite,) = JUnitXml.fromfile(str(folder / "junit.xml"))
    assert suite.tests == len(set(tests)), "JUnit holds all of the run"
    assert "taken up again" in (folder / "index.html").read_text()


def test_evidence_of_a_test_that_was_cut_is_set_aside_and_the_test_runs_again(lane: Lane) -> None:
    lane.candidate()
    cut(lane)
    folder = lane.newest()
    assert folder is not None
    ended = folder / "tests.jsonl"
    *lines, last = ended.read_text().splitlines()
    ended.write_text("".join(line + "\n" for line in lines))
    test = json.loads(last)["test"]

    outcome = lane.run("--resume", str(folder))

    assert outcome.code == 0, outcome.output
    assert test in (folder / "evidence.set-aside.jsonl").read_text()
    assert sum(e.test == test for e in read_evidence(folder)) >= 1
    assert len(read_evidence(folder)) == len({(e.test, e.metric) for e in read_evidence(folder)})


def test_a_red_verdict_stays_red_and_its_launch_is_not_tried_again(lane: Lane) -> None:
    lane.candidate("oom")
    folder = lane.run().folder
    assert folder is not None
    ended = folder / "tests.jsonl"
    ended.write_text(ended.read_text().splitlines()[0] + "\n")

    outcome = lane.run("--resume", str(folder))

    assert outcome.code == 1, outcome.output
    assert len(read_run(folder).launches) == 1
    assert "in an earlier part of this run" in outcome.output


def test_a_run_with_nothing_left_keeps_its_verdict(lane: Lane) -> None:
    lane.candidate("figures-differ")
    folder = lane.run().folder

    outcome = lane.run("--resume", str(folder))

    assert outcome.code == 1, outcome.output


def test_a_run_of_which_only_the_end_is_missing_gets_its_end(lane: Lane) -> None:
    lane.candidate()
    folder = lane.run().folder
    assert folder is not None
    description = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(description | {"finished": None, "exit_code": None}))

    outcome = lane.run("--resume", str(folder))

    assert outcome.code == 0, outcome.output
    assert read_run(folder).exit_code == 0


def test_another_candidate_is_another_run(lane: Lane) -> None:
    lane.candidate()
    folder = lane.run().folder
    lane.candidate(environment='OTHER = "1"')

    outcome = lane.run("--resume", str(folder))

    assert outcome.code == 2
    assert "candidates.fake.environment: the run to resume had" in outcome.output


def test_another_selection_is_another_run(lane: Lane) -> None:
    lane.candidate()
    folder = lane.run().folder

    outcome = lane.run("--resume", str(folder), marker="cpu and kv")

    assert outcome.code == 2
    assert "the run to resume was 'cpu and not preflight'" in outcome.output


def test_a_folder_that_is_no_run_is_misuse(lane: Lane) -> None:
    lane.candidate()

    outcome = lane.run("--resume", str(lane.folder))

    assert outcome.code == 2
    assert "not a run" in outcome.output
