"""The CPU lane as a whole, run by pytest against the stand-in stack: what is wrong turns red, and says why."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import psutil
import pytest
from junitparser import JUnitXml

from sglgate.evidence import Evidence, Verdict
from sglgate.launch.node_lock import NodeLock, default_lock_file
from sglgate.run import read_evidence, read_run

ROOT = Path(__file__).parents[2]
FAKE_STACK = ROOT / "tests" / "fake_stack" / "python"
#: Geometry of SmolLM2-135M: 30 layers x 3 KV heads x (64 + 64) x 2 bytes = 23040 bytes a token.
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "torch_dtype": "bfloat16",
    "vocab_size": 49152,
    "max_position_embeddings": 8192,
}


@dataclass(frozen=True)
class Outcome:
    """How a lane ended."""

    code: int
    output: str
    folder: Path | None

    @property
    def evidence(self) -> list[Evidence]:
        assert self.folder is not None, self.output
        return read_evidence(self.folder)

    def red(self) -> dict[str, str]:
        """Gate -> reason of every record that is not green."""
        return {e.gate: e.reason for e in self.evidence if e.verdict is not Verdict.PASS}


@dataclass(frozen=True)
class Lane:
    """Starts lanes in a folder of its own."""

    folder: Path

    def command(self, *arguments: str, marker: str = "cpu and not preflight") -> list[str]:
        paths = [
            "--candidates",
            str(self.folder),
            "--reports",
            str(self.folder / "reports"),
            "--stack",
            str(FAKE_STACK),
        ]
        # The cache provider would write into the checkout.
        return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", marker, *paths, *arguments]

    def candidate(self, *faults: str, text: str = "", environment: str = "", tp: int = 1) -> None:
        model = self.folder / "model"
        model.mkdir(exist_ok=True)
        # Two ranks hold half of the heads: 9 and 3 do not divide, so they are doubled.
        heads = {} if tp == 1 else {"num_attention_heads": 18, "num_key_value_heads": 6, "head_dim": 64}
        (model / "config.json").write_text(json.dumps(CONFIG | heads))
        (self.folder / "fake.toml").write_text(
            f'name = "fake"\nreason = "a test"\nmodel = {json.dumps(str(model))}\n[arguments]\ntp-size = {tp}\n'
            f"[environment]\nFAKE = {json.dumps(','.join(faults))}\n{environment}\n{text}\n"
        )

    def run(self, *arguments: str, marker: str = "cpu and not preflight") -> Outcome:
        done = subprocess.run(
            self.command(*arguments, marker=marker), cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
        )
        return Outcome(done.returncode, done.stdout + done.stderr, self.newest())

    def newest(self) -> Path | None:
        runs = sorted((self.folder / "reports").glob("*/"))
        return runs[-1] if runs else None


@pytest.fixture
def lane(tmp_path: Path) -> Lane:
    (tmp_path / "lane").mkdir()
    return Lane(tmp_path / "lane")


def test_a_sound_server_is_green_with_evidence_junit_page_and_log(lane: Lane) -> None:
    lane.candidate()

    outcome = lane.run()

    assert outcome.code == 0, outcome.output
    assert outcome.red() == {}
    assert outcome.folder is not None
    names = {p.relative_to(outcome.folder).as_posix() for p in outcome.folder.rglob("*") if p.is_file()}
    assert names == {"evidence.jsonl", "run.json", "junit.xml", "index.html", "telemetry.jsonl", "logs/fake.1.log"}
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
    process = subprocess.Popen(
        lane.command(),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "LANE_TEST": mark},
        # A shell that runs the tests in the background has it ignored, and a child inherits that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size for path in lane.folder.glob("reports/*/evidence.jsonl")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert len(_marked(mark)) >= 3, "suite, keeper and server"

    deadline = time.monotonic() + 5
    process.send_signal(how)
    while _marked(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _marked(mark) == []
    assert read_evidence(lane.newest())
    output = process.communicate(timeout=30)[0].decode()
    run = read_run(lane.newest())
    if how is signal.SIGKILL:
        assert run.finished is None
    else:
        assert run.exit_code == 2
        assert "Traceback" not in output
        assert "not all was judged" in (lane.newest() / "index.html").read_text()


def _marked(mark: str) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("LANE_TEST") == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found
