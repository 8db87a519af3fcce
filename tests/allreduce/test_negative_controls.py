"""Every way a path can fool a reader, planted by name in real ranks: each is red, and for its own reason."""

import pytest

from sglgate.allreduce import paths
from sglgate.allreduce.verdicts import Finding, judge_engaged, judge_exact
from sglgate.allreduce.world import World
from sglgate.evidence import Verdict
from tests.allreduce.ranks import SHM_LIMIT_BYTES, shm_claim

pytestmark = pytest.mark.stack

SHM = paths.path("shm")
SHAPE = (8, 256)
SIZE_BYTES = 8 * 256 * 2


def case(family: str = "small_ints", dtype: str = "bf16", mode: str = "eager", **rest: object) -> dict:
    return {"dtype": dtype, "shape": SHAPE, "family": family, "mode": mode, "round": 0, **rest}


def judged(world: World, cases: list[dict], fault: dict | None) -> Finding:
    claim = shm_claim(world.spec.world_size)
    return judge_exact(SHM, claim, cases, world.exact(cases, fault=fault, deadline_s=60))


def test_without_a_fault_the_same_cases_are_green(world_of_2: World) -> None:
    cases = [
        case(),
        case("exact_any_order", "fp32", round=16),
        case("random", round=32),
        case(mode="graph", replays=5, round=48),
        case(mode="together", round=64),
    ]
    found = judged(world_of_2, cases, None)
    assert found.verdict is Verdict.PASS, found.reason
    assert found.detail["calls_checked"] == 2 * (1 + 1 + 1 + 5 + 2)


def test_a_rank_dropped_at_one_size_is_named(world_of_2: World) -> None:
    fault = {"name": "drops_rank", "dropped": 1, "size_bytes": SIZE_BYTES}
    found = judged(world_of_2, [case()], fault)
    assert found.verdict is Verdict.FAIL
    assert "as if: rank 1 missing" in found.reason
    assert "8x256 bf16 (4 KiB)" in found.reason
    assert "the whole tensor" in found.reason


def test_a_rank_dropped_at_one_size_is_not_seen_at_another(world_of_2: World) -> None:
    fault = {"name": "drops_rank", "dropped": 1, "size_bytes": 2 * SIZE_BYTES}
    assert judged(world_of_2, [case()], fault).verdict is Verdict.PASS


def test_the_previous_calls_answer_is_recognised(world_of_2: World) -> None:
    cases = [case(round=0), case(round=16)]
    found = judged(world_of_2, cases, {"name": "previous_answer"})
    assert found.verdict is Verdict.FAIL
    assert "as if: the previous call's answer" in found.reason


def test_a_kernel_that_launches_nothing_is_wrong_everywhere(world_of_2: World) -> None:
    found = judged(world_of_2, [case("exact_any_order")], {"name": "writes_nothing"})
    assert found.verdict is Verdict.FAIL
    assert "wrong elements" in found.reason
    assert "the whole tensor" in found.reason


def test_a_bf16_accumulator_loses_the_low_bits_of_fp32(world_of_2: World) -> None:
    found = judged(world_of_2, [case("exact_any_order", "fp32")], {"name": "adds_in_bf16"})
    assert found.verdict is Verdict.FAIL
    assert "exact_any_order" in found.reason


def test_a_bf16_accumulator_shows_in_bf16_from_three_ranks_on(world_of_4: World) -> None:
    cases = [case("fp32_accumulate")]
    assert judged(world_of_4, cases, None).verdict is Verdict.PASS
    found = judged(world_of_4, cases, {"name": "adds_in_bf16"})
    assert found.verdict is Verdict.FAIL
    assert "fp32_accumulate" in found.reason


def test_two_swapped_blocks_are_described_as_swapped(world_of_2: World) -> None:
    found = judged(world_of_2, [case("exact_any_order")], {"name": "swaps_blocks"})
    assert found.verdict is Verdict.FAIL
    assert "blocks of 64 at 0 and 128 hold each other's answer" in found.reason


def test_right_in_eager_and_wrong_on_the_second_replay(world_of_2: World) -> None:
    fault = {"name": "wrong_on_replay", "at": 2}
    assert judged(world_of_2, [case()], fault).verdict is Verdict.PASS
    assert judged(world_of_2, [case(mode="graph", replays=1)], fault).verdict is Verdict.PASS
    found = judged(world_of_2, [case(mode="graph", replays=2)], fault)
    assert found.verdict is Verdict.FAIL
    assert "graph replay 2" in found.reason
    assert "one element, 2047" in found.reason


def test_a_mutated_input_is_red_though_the_answer_is_right(world_of_2: World) -> None:
    found = judged(world_of_2, [case()], {"name": "mutates_input"})
    assert found.verdict is Verdict.FAIL
    assert "input mutated" in found.reason
    assert "the first at index 0" in found.reason


def test_a_last_bit_that_differs_on_one_rank_shows_even_in_random_data(world_of_4: World) -> None:
    found = judged(world_of_4, [case("random")], {"name": "last_bit_on_rank", "rank": 2})
    assert found.verdict is Verdict.FAIL
    assert "ranks differ" in found.reason
    assert "rank(s) 2 hold other bits" in found.reason


def test_a_last_bit_that_differs_on_one_rank_is_one_wrong_element(world_of_2: World) -> None:
    found = judged(world_of_2, [case()], {"name": "last_bit_on_rank", "rank": 1})
    assert found.verdict is Verdict.FAIL
    assert "rank 1, small_ints" in found.reason
    assert "1 of 2048 wrong" in found.reason
    assert "one element, 1024" in found.reason


def test_a_write_past_the_end_is_seen_by_the_guard(world_of_2: World) -> None:
    found = judged(world_of_2, [case()], {"name": "writes_past_end"})
    assert found.verdict is Verdict.FAIL
    assert "guard overwritten" in found.reason
    assert "at index 2048" in found.reason


def test_a_silent_fallback_is_not_exercised_though_every_answer_is_right(world_of_2: World) -> None:
    found = judged(world_of_2, [case()], {"name": "falls_back"})
    assert found.verdict is Verdict.NOT_EXERCISED
    assert "served by gloo, not shm" in found.reason


def test_a_silent_fallback_is_not_engaged(world_of_2: World) -> None:
    asked = [("bf16", SHAPE)]
    claim = shm_claim(2)
    honest = judge_engaged(SHM, claim, world_of_2.engaged(asked))
    assert honest.verdict is Verdict.PASS, honest.reason
    found = judge_engaged(SHM, claim, world_of_2.engaged(asked, fault={"name": "falls_back"}))
    assert found.verdict is Verdict.NOT_EXERCISED
    assert "served by gloo, not by shm" in found.reason


def test_sizes_over_the_limit_go_to_gloo_and_are_exact_there(world_of_2: World) -> None:
    over = (1, SHM_LIMIT_BYTES // 2 + 8)
    served = world_of_2.engaged([("bf16", over)])
    assert {call.leaves for rank in served for call in rank} == {("gloo",)}
    answers = world_of_2.exact([{**case(), "shape": over}])
    assert [answer.failures for answer in answers] == [(), ()]
