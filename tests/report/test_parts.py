"""What each part of the page makes of a run's evidence, and of evidence that is not what it should be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sglgate.report.arguments import argument_pairs
from sglgate.report.excerpts import excerpt, split_at_lines, spoken_of
from sglgate.report.figures import figures
from sglgate.report.launches import launches
from sglgate.report.memory import memory_maps
from sglgate.report.telemetry import read_telemetry
from sglgate.run import read_evidence, read_run
from tests.report.made import BEGAN, at
from tests.report.pages import evidence

SPEED = {"suite": "eagle3", "gate": "speed_against_baseline", "direction": "at_least", "unit": "ratio"}
BLOCK = {"plain_tok_per_s": 100.0, "speculative_tok_per_s": 150.0, "logs": [], "order": "AB"}


def test_speed_is_the_geometric_mean_of_the_blocks_of_each_cell() -> None:
    blocks = [BLOCK, BLOCK | {"plain_tok_per_s": 400.0}, BLOCK | {"plain_tok_per_s": None}]
    detail = {"kind": "chat", "concurrency": 4, "blocks": blocks}
    rates, ratios = figures([evidence(**SPEED, value=1.4, bound=1.0, interval=(1.3, 1.5), detail=detail)])

    assert rates.rows == (("chat@4", pytest.approx(200), pytest.approx(150), 3),)
    assert ratios.rows == (("chat@4", 1.4, (1.3, 1.5), 1.0, "PASS"),)


@pytest.mark.parametrize("detail", [{}, {"kind": 3}, {"kind": "chat", "concurrency": 4, "blocks": "none"}])
def test_a_detail_of_another_shape_draws_nothing(detail) -> None:
    broken = {"detail": detail, "value": 1.0, "bound": 1.0}

    assert figures([evidence(**SPEED, **broken)]) == []
    assert memory_maps([evidence(gate="allocated_on_every_rank", **broken)]) == []


def test_acceptance_without_intervals_is_drawn_without_them() -> None:
    (figure,) = figures([evidence(suite="eagle3", gate="draft_is_accepted", detail={"positions": [0.8, 0.5]})])

    assert figure.rows == ((1, 0.8, None, None), (2, 0.5, None, None))


def test_the_map_of_a_card_has_seen_and_predicted_side_by_side(whole_run: Path) -> None:
    (found,) = memory_maps(read_evidence(whole_run))

    assert found.candidate == "spec"
    assert [name for _, name in found.parts] == [
        "before the weights", "weights", "draft's weights", "KV, target", "KV, draft", "graphs", "not in the log",
        "free",
    ]  # fmt: skip
    assert [rank.rank for rank in found.ranks] == [f"TP{n}" for n in range(8)]
    assert found.ranks[0].tokens == ((189_000, 187_000, 190_200, "PASS"),)
    assert found.ranks[7].tokens[0][3] == "FAIL"
    assert all("KV, target up to 0.21 GiB more" in rank.predicted for rank in found.ranks)


def test_figures_of_a_log_that_overlap_do_not_break_the_map() -> None:
    names = ("total", "before_weights", "weights", "draft_weights", "state_pool", "target_pool", "draft_pool", "graphs")
    rank = dict.fromkeys(names) | {"rank": "", "weights": 2.0, "target_pool": 1.0, "unlogged": -0.5, "left": 3.0}
    (found,) = memory_maps([evidence(gate="allocated_on_every_rank", detail={"memory_gib": [rank]})])

    assert [name for _, name in found.parts] == ["weights", "KV, target", "free"]
    assert found.ranks[0].rank == "rank 0"
    assert found.ranks[0].predicted == ""


def test_each_launch_has_its_phases_its_block_and_its_own_stretch_of_telemetry(whole_run: Path) -> None:
    found = launches(read_run(whole_run), read_evidence(whole_run), read_telemetry(whole_run))

    assert [one.candidate for one in found] == ["spec--plain", "spec", "spec", "spec--plain", "too-big"]
    assert [one.block for one in found][:3] == ["block 1 (AB) of spec", "block 1 (AB) of spec", "block 2 (BA) of spec"]
    assert [name for _, name, _ in found[0].phases] == ["process", "weights", "kv", "graphs", "first token"]
    assert (found[4].total_s, found[4].bar) == (None, "")
    ranges = [{lane.name: lane.range for lane in one.lanes} for one in found]
    assert [one["a GPU slowed down"] for one in ranges[:3]] == ["never", "never", "in 11 of 180 readings"]
    assert ranges[3]["foreign processes on a GPU"] == "in 9 of 180 readings"
    assert ranges[0]["CPU clock"] == "3600 MHz"


def test_launches_of_a_run_from_before_telemetry_are_shown_all_the_same(make_run) -> None:
    folder = make_run(launches=[{"candidate": "c", "phase_s": {"weights": 1.0, "total": 2.0}, "log": "logs/c.1.log"}])
    (found,) = launches(read_run(folder), [], read_telemetry(folder))

    assert (found.total_s, found.began, found.lanes) == (2.0, "", ())


def test_a_launch_that_must_fail_is_told_from_one_that_did(make_run) -> None:
    doomed = {"expect": {"failure": {"cause": "kv_budget_exhausted"}}}
    failed = [{"candidate": name, "log": "", "problem": "dead"} for name in ("doomed", "other")]
    folder = make_run(launches=failed, candidates={"doomed": doomed, "other": {"expect": {"failure": None}}})

    assert [one.is_expected for one in launches(read_run(folder), [], read_telemetry(folder))] == [True, False]


def test_telemetry_is_read_as_far_as_it_can_be(tmp_path: Path) -> None:
    host = {"cores": 2, "busy_s": 10.0, "own_s": 5.0}
    later = {
        "cores": 2,
        "busy_s": 11.0,
        "own_s": 5.6,
        "quota_periods": 10,
        "throttled_periods": 1,
        "mhz": None,
        "new": 1,
    }
    lines = [
        {"at": at(0), "t_s": 7.0, "gpus": [{"sm_mhz": 1000, "foreign": 2}, {"sm_mhz": 2000}], "host": host},
        {"at": at(1), "t_s": 8.0, "host": later},
        {"at": at(2), "t_s": 9.0, "gpus": None, "host": {"mhz": "many"}},
        {"error": "NVML says no", "t_s": 10.0}, {"at": "now", "t_s": 1}, {"at": 5, "t_s": 1}, [1],
    ]  # fmt: skip
    torn = ["\x00\xff", "{" * 100_000, '{"at": "2026']
    (tmp_path / "telemetry.jsonl").write_text("\n".join([*map(json.dumps, lines), *torn]))
    telemetry, began = read_telemetry(tmp_path), BEGAN.timestamp()

    assert (telemetry.lines, telemetry.unreadable) == (10, 7)
    assert {lane.name: lane.range for lane in telemetry.lanes(began, began + 10)} == {
        "foreign processes on a GPU": "in 1 of 1 readings",
        "GPU clock": "1000 to 2000 MHz",
        "CPU time of others": "20 % of all cores",
        "CPU time of all": "50 % of all cores",
        "CPU throttled": "10 % of periods",
    }
    assert telemetry.lanes(began + 5, began + 10) == []
    assert read_telemetry(tmp_path / "absent").lines == 0


def test_a_server_is_held_against_its_baseline_and_its_parent(make_run) -> None:
    def launch(name: str, command: str, **resolved: object) -> dict[str, object]:
        return {"candidate": name, "command": command, "resolved": resolved, "log": "", "phase_s": {}}

    folder = make_run(
        candidates={"child": {"reason": "", "extends": "base"}, "base": {"reason": "", "extends": None}},
        launches=[
            launch("base", "--tp-size 2", tp_size=2, page_size=1, port=1, cuda_graph_max_bs=8),
            launch("child", "--tp-size 2 --page-size 64", tp_size=2, page_size=64, port=2, cuda_graph_max_bs=16),
            launch("child--plain", "--tp-size 2", tp_size=2, page_size=1, port=3, cuda_graph_max_bs=16, extra=None),
            launch("child", "", tp_size=99),
        ],
    )
    found = {(pair.base, pair.candidate): pair.differences for pair in argument_pairs(read_run(folder))}

    assert list(found) == [("child--plain", "child"), ("base", "child")]
    assert [(d.name, d.old, d.new, d.note) for d in found["base", "child"]] == [
        ("page_size", "1", "64", "asked for"),
        ("cuda_graph_max_bs", "8", "16", "SGLang's own choice"),
    ]
    assert [d.name for d in found["child--plain", "child"]] == ["page_size"]


def test_an_excerpt_keeps_numbers_and_hides_a_key_that_spans_lines(tmp_path: Path) -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIabc\nMIIdef\n-----END PRIVATE KEY-----\n"
    (tmp_path / "a.log").write_text(
        '{"log": "one\\ntwo"}\n' + key + "".join(f"line {n}\n" for n in range(6, 300)) + "no newline"
    )
    found = excerpt(tmp_path, "a.log", {3, 100})

    by_number = {line.number: line for line in found.lines}
    assert by_number[1].text == "one two"
    assert by_number[2].text == "***"
    assert by_number[3].text == by_number[4].text == ""
    assert by_number[6].text == "line 6"
    assert [line.number for line in found.lines if line.is_spoken_of] == [3, 100]
    assert [line.number for line in found.lines if line.follows_gap] == [97, 261]
    assert found.lines[-1].text == "no newline"


@pytest.mark.parametrize("log", ["../a.log", "/etc/passwd", "absent", "nul\x00", "link", ".", ""])
def test_nothing_but_a_file_of_the_run_is_read(tmp_path: Path, log: str) -> None:
    (tmp_path / "a.log").write_text("outside\n")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "a.log")

    assert excerpt(folder, log, ()).lines == ()
    assert excerpt(folder, log, ()).problem == "no such file in this run"


def test_a_reason_is_split_where_it_names_lines() -> None:
    reason = "dead: line 71: no; see line 9 and outline 5"

    assert spoken_of(reason) == {71, 9}
    assert "".join(text for text, _ in split_at_lines(reason)) == reason
    assert [number for _, number in split_at_lines(reason) if number] == [71, 9]
