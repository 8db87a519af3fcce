"""Which earlier runs teach how long something takes."""

from __future__ import annotations

from pathlib import Path

from sglgate.past import past_ready_s, past_total_s
from sglgate.run import RUN, TESTS, RunInfo, ended_line

TEST = "suites/launch/test_launch.py::test_as_declared[one]"


def write_run(reports: Path, name: str, *, replay: str = "", launches: bool = True) -> None:
    folder = reports / name
    folder.mkdir(parents=True)
    launch = {"candidate": "one", "phase_s": {"total": 40.0}}
    info = RunInfo(
        name=name,
        profile="cpu",
        sglgate="0",
        started="2026-11-29T12:00:00+00:00",
        replay=replay,
        launches=[launch] if launches else [],
    )
    (folder / RUN).write_text(info.model_dump_json())
    (folder / TESTS).write_text(ended_line(TEST, 50.0))


def test_a_run_with_launches_teaches(tmp_path: Path) -> None:
    write_run(tmp_path, "real")
    assert past_ready_s(tmp_path) == {"one": [40.0]}
    assert past_total_s(tmp_path) == {"one": 50.0}


def test_a_replay_and_a_run_that_launched_nothing_teach_nothing(tmp_path: Path) -> None:
    write_run(tmp_path, "replayed", replay="a recording")
    write_run(tmp_path, "unfit", launches=False)
    assert past_ready_s(tmp_path) == {}
    assert past_total_s(tmp_path) == {}
