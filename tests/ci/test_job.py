"""One job from beginning to end, on the stand-in stack."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lane.lanes import FAKE_STACK, ROOT, Lane


@pytest.fixture
def lane(tmp_path: Path) -> Lane:
    (tmp_path / "lane").mkdir()
    return Lane(tmp_path / "lane")


def job(lane: Lane, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [str(ROOT / "ci" / "job"), *words],
        env={
            **os.environ,
            "SGLGATE_PYTHON": sys.executable,
            "SGLGATE_REPORTS": str(lane.folder / "reports"),
            "SGLGATE_OUT_OF_SERVICE": str(lane.folder / "out-of-service"),
            "SGLGATE_STACK": str(FAKE_STACK),
            "SGLGATE_WAIT_S": "0",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def options(lane: Lane) -> list[str]:
    return ["-p", "no:cacheprovider", "-m", "cpu and not preflight", f"--candidates={lane.folder}"]


def test_a_red_job_is_red_and_its_summary_says_why(lane: Lane) -> None:
    lane.candidate("figures-differ")
    assert job(lane, "before")[0] == 0
    assert job(lane, "summary") == (1, "Nothing was judged.\n")

    code, output = job(lane, "run", *options(lane))
    assert code == 1, output
    code, summary = job(lane, "summary")

    assert code == 0
    assert "FAIL: 7 of 8 gates green" in summary
    assert "4097" in summary
    assert job(lane, "after")[0] == 0
    assert not (lane.folder / "out-of-service").exists()


def test_a_sign_off_judges_both_stacks_and_goes_on_after_a_red_gate(lane: Lane) -> None:
    lane.candidate("figures-differ")
    job(lane, "before")

    code, output = job(lane, "signoff", str(FAKE_STACK), str(FAKE_STACK), *options(lane))

    (folder,) = (lane.folder / "reports").glob("signoff-*")
    assert {path.name for path in folder.iterdir()} == {"current", "proposed", "dossier"}, output
    assert code == 1, "red in both is no go"
    assert "NO-GO" in job(lane, "summary")[1]


def test_a_mistake_stops_a_sign_off_at_once(lane: Lane) -> None:
    lane.candidate(text="[expect.kv]\nmin_token = 3\n")
    job(lane, "before")

    code, output = job(lane, "signoff", str(FAKE_STACK), str(FAKE_STACK), *options(lane))

    assert code == 2
    assert "did you mean 'min_tokens'?" in output


def test_a_job_without_a_stack_says_what_is_missing() -> None:
    done = subprocess.run(
        [str(ROOT / "ci" / "job"), "run"],
        env={"PATH": os.environ["PATH"], "SGLGATE_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode != 0
    assert "the interpreter with the sglang to judge" in done.stderr
