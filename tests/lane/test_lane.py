"""The CPU lane as a whole, run by pytest against the stand-in stack: what is wrong turns red, and says why."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest
from junitparser import JUnitXml

from sglgate.cli import main
from sglgate.evidence import Verdict
from sglgate.launch.node_lock import NodeLock, default_lock_file
from sglgate.run import read_evidence, read_run
from tests.lane.lanes import FAKE_STACK, ROOT, Lane, marked


def test_a_sound_server_is_green_with_evidence_junit_page_and_log(lane: Lane) -> None:
    lane.candidate()

    outcome = lane.run()

    assert outcome.code == 0, outcome.output
    assert outcome.red() == {}
    assert outcome.folder is not None
    names = {p.relative_to(outcome.folder).as_posix() for p in outcome.folder.rglob("*") if p.is_file()}
    records = {"evidence.jsonl", "run.json", "tests.jsonl", "telemetry.jsonl"}
    assert names == records | {"junit.xml", "index.html", "logs/fake.1.log"}
    suite = next(iter(JUnitXml.fromfile(str(outcome.folder / "junit.xml"))))
    assert suite.tests == len({e.test for e in outcome.evidence}) > 5
    properties = {p.get("name") for p in ElementTree.parse(outcome.folder / "junit.xml").iter("property")}
    assert properties >= {"metric", "value", "bound", "unit", "n", "verdict", "candidate", "stack", "log"}
    assert read_run(outcome.folder).exit_code == 0


@pytest.mark.parametrize(
    ("fault", "gate", "reason"),
    [
        ("rank-differs", "equal_tokens", "= 16 tokens"),
        ("no-kv-line", "allocated_on_every_rank", "no KV line on any rank"),
        ("strange-kv-line", "allocated_on_every_rank", "unknown KV format"),
        ("wrong-size", "bytes_per_token", "must be within"),
        ("figures-differ", "figures_agree", "4097"),
        ("health-only", "as_declared", "did not answer /generate"),
        ("oom", "as_declared", "kv_budget_exhausted"),
        ("dies-under-load", "filled_without_retraction", "while the pool was filled"),
        ("retracts", "filled_without_retraction", "retracted"),
        ("forgets-when-full", "filled_without_retraction", "nonsense"),
    ],
)
def test_a_fault_turns_its_gate_red_and_is_named(lane: Lane, fault: str, gate: str, reason: str) -> None:
    lane.candidate(fault, tp=2 if fault == "rank-differs" else 1)

    outcome = lane.run()

    assert outcome.code == 1, outcome.output
    assert gate in outcome.red(), outcome.red()
    assert reason in outcome.red()[gate]
    assert outcome.folder is not None
    failed = [case for suite in JUnitXml.fromfile(str(outcome.folder / "junit.xml")) for case in suite if case.result]
    assert any(gate in case.name for case in failed)
    assert reason.replace("must be within", "within") in outcome.output
    assert gate.replace("_", " ") in (outcome.folder / "index.html").read_text()


def test_a_rank_without_a_pool_is_missed(lane: Lane) -> None:
    lane.candidate("one-rank-silent", tp=2)

    outcome = lane.run()

    assert outcome.code == 1, outcome.output
    assert "ranks with a KV pool = 1 ranks, must be equal 2 ranks" in outcome.red()["allocated_on_every_rank"]


def test_two_sound_ranks_are_green(lane: Lane) -> None:
    lane.candidate(tp=2)

    assert lane.run().code == 0


def test_an_answer_that_is_wrong_from_the_start_is_red(lane: Lane) -> None:
    lane.candidate(text='[expect.kv.answers]\n"The capital of France is" = "London"\n')

    assert "' Paris.'" in repr(lane.run().red()["filled_without_retraction"])


@pytest.mark.parametrize(
    "plugin",
    [
        # Each makes a red or missing gate look harmless to pytest.
        "def pytest_itemcollected(item):\n    item.add_marker(pytest.mark.xfail)\n",
        "def pytest_itemcollected(item):\n    item.add_marker(pytest.mark.skip)\n",
        "def pytest_runtest_protocol(item, nextitem):\n    return True\n",
        "def pytest_pycollect_makemodule(module_path, parent):\n    pytest.skip('not here', allow_module_level=True)\n",
    ],
    ids=["xfail", "skip", "not-run", "module-skip"],
)
def test_no_mark_or_plugin_makes_a_red_run_green(
    lane: Lane, plugin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "softener.py").write_text("import pytest\n" + plugin)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    lane.candidate("figures-differ")

    outcome = lane.run("-p", "softener")

    assert outcome.code not in (0, 5), outcome.output


def test_a_pool_below_the_declared_need_is_red(lane: Lane) -> None:
    lane.candidate(text="[expect.kv]\nrequests = 100\nrequest_tokens = 100\n")

    assert "must be at least 10000" in lane.run().red()["holds_what_is_needed"]


def test_a_server_slower_than_its_floor_over_launches_is_red(lane: Lane) -> None:
    speed = "[expect.speed]\nmin_tok_per_s = 100000\nlaunches = 3\nrequests = 2\noutput_tokens = 8\n"
    lane.candidate(environment='FAKE_STEP_MS = "40"', text="[expect.kv]\nfill = 0\n" + speed)
    outcome = lane.run("-k", "speed_over_launches")
    assert outcome.code == 1, outcome.output
    (record,) = outcome.evidence
    assert (record.gate, record.verdict, record.n) == ("speed_over_launches", Verdict.FAIL, 3)
    assert record.bound == 100000


@pytest.mark.parametrize(
    ("faults", "cause", "code"),
    [
        (("oom",), "kv_budget_exhausted", 0),
        (("oom",), "kernel_arch_unsupported", 1),
        ((), "kv_budget_exhausted", 1),
    ],
)
def test_an_expected_failure_must_come_and_for_its_cause(
    lane: Lane, faults: tuple[str, ...], cause: str, code: int
) -> None:
    lane.candidate(*faults, text=f'[expect.failure]\ncause = "{cause}"\nreason = "a test"\nlink = "none"\n')

    outcome = lane.run()

    assert outcome.code == code, outcome.output
    assert [e.gate for e in outcome.evidence] == ["as_declared"]


def test_a_flag_that_this_sglang_lacks_is_told_before_anything_starts(lane: Lane) -> None:
    lane.candidate(text="[arguments.x]\n")
    (lane.folder / "fake.toml").write_text(
        'name = "fake"\nreason = "a test"\nmodel = "m"\n[arguments]\nmem-fraction = 0.3\n'
    )

    outcome = lane.run()

    assert outcome.code == 2
    assert "arguments.mem-fraction" in outcome.output
    assert "did you mean 'mem-fraction-static'?" in outcome.output
    assert outcome.folder is None


def test_a_value_that_the_parser_refuses_is_told_before_anything_starts(lane: Lane) -> None:
    (lane.folder / "fake.toml").write_text(
        'name = "fake"\nreason = "a test"\nmodel = "m"\n[arguments]\npage-size = "many"\n'
    )

    outcome = lane.run()

    assert outcome.code == 2
    assert "invalid int value: 'many'" in outcome.output


def test_two_runs_at_once_are_refused(lane: Lane) -> None:
    lane.candidate()
    with NodeLock(default_lock_file(), "run of somebody else"):
        outcome = lane.run()

    assert outcome.code == 3
    assert "run of somebody else" in outcome.output
    (suite,) = JUnitXml.fromfile(str(next(lane.folder.glob("reports/*/junit.xml"))))
    assert suite.errors == 1, "a reader of JUnit alone must see it"


def test_absent_gpus_are_an_error_that_says_what_is_missing(lane: Lane) -> None:
    lane.candidate()

    outcome = lane.run(marker="blackwell")

    assert outcome.code == 1
    assert "8 GPUs needed" in outcome.output
    assert "skipped" not in outcome.output
    assert {e.verdict for e in outcome.evidence} == {Verdict.UNFIT}
    suites = JUnitXml.fromfile(str(outcome.folder / "junit.xml"))
    assert all(case.result for suite in suites for case in suite)


def test_secrets_of_the_server_reach_no_report(lane: Lane) -> None:
    lane.candidate(environment='HF_TOKEN = "hf_abcdefghijklmnopqrstuvwxyz012345"')

    outcome = lane.run()

    assert outcome.folder is not None
    assert "hf_abcdefghijklmnopqrstuvwxyz012345" not in outcome.output
    for path in outcome.folder.rglob("*"):
        if path.is_file() and path.parent.name != "logs":
            text = path.read_text()
            assert "hf_abcdefghijklmnopqrstuvwxyz012345" not in text, path
            assert "sk-very-secret-0123456789abcdef" not in text, path


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_leaves_no_server_and_keeps_its_evidence(lane: Lane, how: signal.Signals) -> None:
    lane.candidate()
    mark = f"{lane.folder.parent.name}-{os.getpid()}"
    process = lane.start(mark)
    lane.await_evidence()
    assert len(marked(mark)) >= 3, "suite, keeper and server"

    deadline = time.monotonic() + 5
    process.send_signal(how)
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert marked(mark) == []
    assert read_evidence(lane.newest())
    output = process.communicate(timeout=30)[0].decode()
    run = read_run(lane.newest())
    if how is signal.SIGKILL:
        assert run.finished is None
    else:
        assert run.exit_code == 2
        assert "Traceback" not in output
        assert "not all was judged" in (lane.newest() / "index.html").read_text()


def test_a_run_launches_what_the_plan_says(lane: Lane, capsys: pytest.CaptureFixture[str]) -> None:
    lane.candidate(name="a", text="[expect.kv]\nrelaunch = true\n")
    lane.candidate(name="b", tp=2)
    lane.candidate(name="c")  # the server of a, under another name
    lane.candidate(name="old", top='sglang = "<0.5.14"')
    plan = ["plan", "--profile", "cpu", "--root", str(ROOT), "--candidates", str(lane.folder), "--stack"]

    outcome = lane.run()

    assert outcome.code == 0, outcome.output
    assert main([*plan, str(FAKE_STACK), "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    launched = read_run(outcome.folder).launches
    assert len(launched) == sum(item["launches"] for item in planned["candidates"]) == planned["fewest"] == 3
    assert launched[0]["also"] == ["c"]
    assert {e.candidate for e in outcome.evidence} == {"a", "b", "c"}
    assert "left out: old, for SGLang <0.5.14, this stack has 0.5.23" in outcome.output
    assert set(planned["left_out"]) == {"old"}
