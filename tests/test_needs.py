"""The plan launches as few servers as its evidence can do with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sglgate.config import Candidate, Profile, load_candidates, load_profiles
from sglgate.config.candidate_files import fitting
from sglgate.needs import fewest_launches, in_order, launches_by_candidate, needs_of
from sglgate.plan import PlannedCandidate, plan_run, side_by_side_s

ROOT = Path(__file__).parents[1]


def candidate(name: str, arguments: dict[str, Any] | None = None, **fields: Any) -> Candidate:
    base = {"name": name, "profile": "p", "file": f"{name}.toml", "reason": "tests", "model": "m"}
    return Candidate.model_validate({**base, "arguments": arguments or {}, **fields})


def launches(*candidates: Candidate) -> int:
    return launches_by_candidate(in_order(candidates)).total()


SPEC = {"speculative-algorithm": "EAGLE3", "speculative-num-steps": 3}
NCCL = {"allreduce": {"path": "nccl"}}
IPC = {"allreduce": {"path": "pcie_ipc"}}


@pytest.mark.parametrize("lane", ["cpu", "blackwell", "blackwell-4", "blackwell-2", "blackwell-1"])
def test_every_lane_launches_the_fewest(lane: str) -> None:
    profile = load_profiles(ROOT / "fixtures" / "profiles")[lane]
    folder = ROOT / "fixtures" / "candidates" / profile.candidates_folder
    needs = in_order(fitting(load_candidates(folder, profile), profile))

    assert launches_by_candidate(needs).total() == fewest_launches(needs) > 0


def test_no_order_of_the_same_needs_goes_below_the_bound() -> None:
    candidates = [
        candidate("a", expect={"kv": {"relaunch": True}, **NCCL}),
        candidate("b", {"tp-size": 2}, expect=IPC),
        candidate("c", {"tp-size": 2, "disable-custom-all-reduce": True}),
    ]
    for order in (candidates, candidates[::-1], [candidates[1], candidates[2], candidates[0]]):
        needs = [need for one in order for need in needs_of(one)]
        assert launches_by_candidate(needs).total() >= fewest_launches(needs)


def test_two_names_of_one_server_share_its_launch() -> None:
    assert launches(candidate("a"), candidate("b", {"tp-size": 2}), candidate("c")) == 2


def test_a_second_launch_to_compare_with_the_first_is_one_more() -> None:
    assert launches(candidate("a", expect={"kv": {"relaunch": True}})) == 2


def test_speed_over_launches_costs_its_launches() -> None:
    assert launches(candidate("a", expect={"speed": {"min_tok_per_s": 1, "launches": 5}})) == 6


def test_two_releases_cost_two_launches_a_block_and_first_as_many_of_the_one_that_serves_now() -> None:
    one = candidate("a", expect={"release": {"looks": [3, 5], "aa_looks": [2, 4]}})
    needs = in_order([one], two_releases=True)

    assert launches(one) == 1
    assert launches_by_candidate(needs).total() == fewest_launches(needs) == 1 + 2 * 2 + 2 * 3


def test_a_window_costs_one_launch_below_and_one_above() -> None:
    assert launches(candidate("a", expect={"kv": {"window_margin": 0.03}})) == 3


def test_one_baseline_is_asked_twice_for_all_who_have_it() -> None:
    one = candidate("one", environment={"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1"}, expect=IPC)
    assert launches(one) == 3
    two = candidate("two", {"enable-symm-mem": True}, expect={"allreduce": {"path": "nccl_symm_mem"}})

    assert launches(one, two) == 4


def test_a_refused_path_needs_no_baseline() -> None:
    refused = {"path": "custom_v1", "reason": "PCIe", "link": "none"}

    assert launches(candidate("a", expect={"allreduce": {"path": "nccl", "refused": refused}})) == 1


def test_a_server_that_is_anothers_baseline_comes_right_after_it() -> None:
    asks = candidate("asks", expect=IPC)
    baseline = candidate("baseline", {"disable-custom-all-reduce": True})
    between = candidate("between", {"tp-size": 2})

    assert launches(asks, between, baseline) == launches(asks, between)


def test_speculation_is_compared_with_one_plain_server_and_timed_with_fresh_ones() -> None:
    answers = {"eagle3": {"speed": None}}
    assert launches(candidate("a", SPEC, expect=answers)) == 2
    speed = {"eagle3": {"speed": {"max_loss": {"chat@1": 0.03}, "aa_looks": [2], "looks": [3]}}}

    # Plain against plain twice, plain against speculative three times.
    assert launches(candidate("a", SPEC, expect=speed)) == 2 + 2 * 2 + 2 * 3


def test_a_launch_that_must_fail_is_one_and_leaves_no_server() -> None:
    failure = {"failure": {"cause": "kv_budget_exhausted", "reason": "small", "link": "none"}}

    assert launches(candidate("a", {"x": 1}, expect=failure), candidate("b", {"x": 1})) == 2


def test_time_comes_from_earlier_runs_else_from_the_models_bytes(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "a.safetensors").write_bytes(b"x" * 1_000_000)
    profile = Profile.model_validate({"name": "p", "reason": "tests"})

    (known,) = plan_run(profile, [candidate("a")], tmp_path / "none", {"m": model})
    (unknown,) = plan_run(profile, [candidate("a")], tmp_path / "none", {})

    assert known.ready_s is not None
    assert "guessed" in known.basis
    assert unknown.ready_s is None
    assert unknown.expected_s is None


def planned(slots: int, seconds: float, alone: bool = False) -> PlannedCandidate:
    return PlannedCandidate("c", slots, None, 1, seconds, "", seconds, 100, alone)


def test_halves_run_side_by_side_and_what_is_timed_runs_alone() -> None:
    assert side_by_side_s([planned(4, 100), planned(4, 100)], slots=8, workers=2) == 100
    assert side_by_side_s([planned(8, 100), planned(4, 100)], slots=8, workers=2) == 200
    assert side_by_side_s([planned(4, 100, alone=True), planned(4, 100)], slots=8, workers=2) == 200
    assert side_by_side_s([planned(2, 100)] * 4, slots=8, workers=2) == 200


def test_one_plain_server_answers_for_all_settings_of_speculation_that_ask_the_same() -> None:
    expect = {"eagle3": {}}
    one, two = (
        candidate("one", SPEC, expect=expect),
        candidate("two", SPEC | {"speculative-num-steps": 5}, expect=expect),
    )
    assert launches(one, two) == 3
    other = candidate("other", SPEC | {"speculative-num-steps": 2}, expect={"eagle3": {"answers": {"tokens": 96}}})

    assert launches(one, two, other) == 5
