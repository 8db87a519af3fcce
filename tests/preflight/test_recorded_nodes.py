"""The Blackwell lane on recorded nodes: a good one passes and is never green, a bad one turns its own check red."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from sglgate.errors import MisuseError
from sglgate.evidence import Evidence, Verdict
from sglgate.report import markdown_summary, openmetrics
from sglgate.run import read_evidence, read_run
from sglgate.signoff import read_side
from sglgate.store import Store, import_run

ROOT = Path(__file__).parents[2]
REPLAY = ROOT / "fixtures" / "replay"
BAD = sorted(path.name for path in (REPLAY / "bad").iterdir())
CANDIDATE = 'name = "one"\nreason = "a test"\nmodel = "moonshotai/Kimi-K2.5"\n[arguments]\ntp-size = 8\n'


def judge(folder: Path, node: Path, *options: str, marker: str = "blackwell") -> tuple[int, str, Path, list[Evidence]]:
    candidates, reports = folder / "candidates", folder / "reports"
    candidates.mkdir(exist_ok=True)
    (candidates / "one.toml").write_text(CANDIDATE)
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-m", marker, f"--replay={node}"]
    argv += [f"--candidates={candidates}", f"--reports={reports}", *options]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    runs = sorted(reports.glob("*/"))
    assert runs, done.stdout + done.stderr
    return done.returncode, done.stdout + done.stderr, runs[-1], read_evidence(runs[-1])


def gates_of_the_suite() -> set[str]:
    files = (ROOT / "suites" / "preflight").glob("test_*.py")
    return {name for file in files for name in re.findall(r"^def test_(\w+)", file.read_text(), re.MULTILINE)}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str, Path, list[Evidence]]:
    return judge(tmp_path_factory.mktemp("good"), REPLAY / "blackwell-good")


def test_a_good_node_passes_preflight_and_the_lane_runs_through(good) -> None:
    code, output, _, evidence = good

    assert code == 3, output
    assert {e.verdict for e in evidence if e.suite == "preflight"} == {Verdict.PASS}
    assert {e.verdict for e in evidence if e.suite != "preflight"} == {Verdict.NOT_EXERCISED}
    assert {e.suite for e in evidence} == {"preflight", "launch", "kv"}
    assert {e.gate for e in evidence if e.suite == "preflight"} == gates_of_the_suite() - {"as_pinned"}


def test_a_replay_is_marked_in_every_report(good) -> None:
    _, output, folder, evidence = good
    info = read_run(folder)

    assert "replay" in folder.name
    assert "REPLAY" in output
    assert "never green" in output
    assert all(e.reason.startswith("replay: ") for e in evidence)
    assert "REPLAY" in (folder / "index.html").read_text()
    assert markdown_summary(info, evidence).startswith("## REPLAY")
    tree = ElementTree.parse(folder / "junit.xml")
    assert "REPLAY" in next(tree.iter("testsuite")).get("name")
    assert any(p.get("name") == "replay" for p in tree.iter("property"))
    assert not (folder / "telemetry.jsonl").exists(), "this machine was not what was judged"


def test_a_replay_is_no_measurement_for_the_history_a_sign_off_or_a_metric(good, tmp_path: Path) -> None:
    _, _, folder, evidence = good
    with pytest.raises(MisuseError, match="a replay"):
        read_side(folder)
    with pytest.raises(MisuseError, match="a replay"):
        openmetrics(read_run(folder), evidence)
    with (
        Store(f"sqlite:///{tmp_path / 'store.db'}", create=True) as store,
        pytest.raises(MisuseError, match="a replay"),
    ):
        import_run(store, folder)
    assert not list(folder.parent.glob("*.db"))


def test_each_check_has_a_bad_node() -> None:
    assert {name.partition(".")[0] for name in BAD} == gates_of_the_suite() - {"as_pinned"}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_node_turns_its_own_check_red_and_no_other(name: str, tmp_path: Path) -> None:
    code, output, _, evidence = judge(tmp_path, REPLAY / "bad" / name, marker="blackwell and preflight")

    assert code == 1, output
    reds = {e.gate: e for e in evidence if e.verdict is not Verdict.PASS}
    assert list(reds) == [name.partition(".")[0]], output
    assert "remedy: " in next(iter(reds.values())).reason


def test_a_red_preflight_stops_the_run_before_the_first_launch(tmp_path: Path) -> None:
    code, output, _, evidence = judge(tmp_path, REPLAY / "bad" / "peers")

    assert code == 1
    later = [e for e in evidence if e.suite != "preflight"]
    assert {e.verdict for e in later} == {Verdict.UNFIT}
    assert all("preflight is red (peers)" in e.reason for e in later), output


def test_the_curious_go_on(tmp_path: Path) -> None:
    code, _, _, evidence = judge(tmp_path, REPLAY / "bad" / "peers", "--keep-going")

    assert code == 1
    assert {e.verdict for e in evidence if e.suite == "launch"} == {Verdict.NOT_EXERCISED}


def test_a_node_that_lost_a_gpu_says_so_in_the_log_and_the_count_and_launches_nothing(tmp_path: Path) -> None:
    node = tmp_path / "lost"
    node.mkdir()
    base = str(REPLAY / "bad" / "kernel_log")
    (node / "recording.json").write_text(json.dumps({"about": "seven cards", "made": "written", "base": base}))
    (node / "nvml.json").write_text('{"cards": {"7": null}}')

    _, output, _, evidence = judge(tmp_path, node)

    reds = {e.gate for e in evidence if e.suite == "preflight" and e.verdict is not Verdict.PASS}
    assert reds >= {"right_gpus", "kernel_log"}, output
    assert all("8 GPUs needed, 7 found" in e.reason for e in evidence if e.suite != "preflight")


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({}, "not a recording"),
        ({"recording.json": "{}"}, "not a recording"),
        ({"recording.json": '{"about": "x", "made": "written", "base": "."}'}, "a cycle"),
    ],
)
def test_what_is_no_recording_is_told_before_anything_starts(files: dict, problem: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "blackwell", f"--replay={tmp_path}"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 2, done.stdout + done.stderr
    assert problem in done.stdout + done.stderr
