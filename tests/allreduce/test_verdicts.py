"""Verdicts from made-up answers: what no honest world would say must not pass either."""

from typing import Any

import pytest

from sglgate.allreduce import paths
from sglgate.allreduce.messages import ExactAnswer, Served
from sglgate.allreduce.paths import Refusal
from sglgate.allreduce.verdicts import judge_declined, judge_engaged, judge_exact
from sglgate.evidence import Verdict
from tests.allreduce.ranks import shm_claim

SHM = paths.path("shm")
CLAIM = shm_claim(2)
SHAPE = (4, 64)
CASES = [{"dtype": "bf16", "shape": SHAPE, "family": "random", "mode": "eager", "round": 0}]


def served(leaves: tuple[str, ...], kernels: tuple[str, ...], shape: tuple[int, ...] = SHAPE) -> Served:
    return Served(dtype="bf16", shape=shape, mode="eager", leaves=leaves, kernels=kernels)


HONEST = served(("shm",), ("sglgate::shm_all_reduce",))


def exact(served_by: str = "shm", digest: str = "a", failures: tuple[dict[str, Any], ...] = ()) -> ExactAnswer:
    return ExactAnswer.model_validate(
        {"checked": 1, "failures": failures, "served": ((served_by,),), "digests": {0: digest}}
    )


def test_engaged_needs_leaf_and_kernel_on_every_rank() -> None:
    assert judge_engaged(SHM, CLAIM, [[HONEST], [HONEST]]).verdict is Verdict.PASS
    no_kernel = served(("shm",), ("aten::add_",))
    found = judge_engaged(SHM, CLAIM, [[HONEST], [no_kernel]])
    assert found.verdict is Verdict.NOT_EXERCISED
    assert "no kernel of it ran on every rank" in found.reason


def test_one_rank_that_went_elsewhere_is_enough() -> None:
    other = served(("gloo",), ("gloo:all_reduce",))
    found = judge_engaged(SHM, CLAIM, [[HONEST], [other]])
    assert found.verdict is Verdict.NOT_EXERCISED
    assert "served by gloo and shm" in found.reason


def test_sglangs_own_reason_is_quoted() -> None:
    custom = paths.path("custom_v1")
    claim = custom.claim(paths.Host((0, 5, 23), 2))
    other = served(("nccl",), ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL",))
    line = "WARNING CustomAllreduce is disabled because your platform lacks GPU P2P capability or so."
    found = judge_engaged(custom, claim, [[other]], [line])
    assert found.verdict is Verdict.NOT_EXERCISED
    assert "lacks GPU P2P capability" in found.reason


def test_a_path_that_must_be_refused_and_is_not_is_red() -> None:
    custom = paths.path("custom_v1")
    line = "CustomAllreduce is disabled because it's not supported on more than two PCIe-only GPUs. To silence this"
    assert judge_declined(custom, ["something else", line]).verdict is Verdict.PASS

    found = judge_declined(custom, ["something else"])

    assert found.verdict is Verdict.FAIL
    assert "said nothing against custom_v1" in found.reason


def test_a_refusal_by_rule_is_not_exercised() -> None:
    found = judge_engaged(SHM, Refusal("there is none"), [[HONEST]])
    assert (found.verdict, found.reason) == (Verdict.NOT_EXERCISED, "there is none")


def test_no_claimed_size_among_those_tried_is_not_a_pass() -> None:
    odd = served(("gloo",), ("gloo:all_reduce",), shape=(3, 9))
    found = judge_engaged(SHM, CLAIM, [[odd]])
    assert found.verdict is Verdict.NOT_EXERCISED
    assert "no size that was tried" in found.reason


def test_serving_beyond_the_claim_is_a_failure_of_the_claim() -> None:
    beyond = served(("shm",), ("sglgate::shm_all_reduce",), shape=(3, 9))
    found = judge_engaged(SHM, CLAIM, [[HONEST, beyond]])
    assert found.verdict is Verdict.FAIL
    assert "3x9 bf16 (54 B), which it does not claim" in found.reason


def test_a_path_of_the_server_alone_is_not_exercised_in_a_worker() -> None:
    found = judge_engaged(paths.path("flashinfer_fusion"), CLAIM, [[HONEST]])
    assert found.verdict is Verdict.NOT_EXERCISED


def test_equal_digests_pass_and_different_ones_name_the_odd_rank() -> None:
    assert judge_exact(SHM, CLAIM, CASES, [exact()] * 3).verdict is Verdict.PASS
    found = judge_exact(SHM, CLAIM, CASES, [exact(), exact(digest="b"), exact()])
    assert found.verdict is Verdict.FAIL
    assert "rank(s) 1 hold other bits" in found.reason


def test_exactness_of_another_path_is_not_exercised() -> None:
    found = judge_exact(SHM, CLAIM, CASES, [exact("gloo")] * 2)
    assert found.verdict is Verdict.NOT_EXERCISED


def test_a_run_without_one_case_of_the_path_is_not_a_pass() -> None:
    odd = [{**CASES[0], "shape": (3, 9)}]
    assert judge_exact(SHM, CLAIM, odd, [exact("gloo")] * 2).verdict is Verdict.NOT_EXERCISED


@pytest.mark.parametrize("kind", ["not_repeatable", "neighbour_overwritten", "wrong_shape"])
def test_every_kind_of_failure_fails(kind: str) -> None:
    broken = {
        "kind": kind,
        "case": 0,
        "rank": 1,
        "dtype": "bf16",
        "shape": SHAPE,
        "family": "random",
        "mode": "eager",
        "round": 0,
        "delayed_rank": -1,
        "replays": 0,
    }
    found = judge_exact(SHM, CLAIM, CASES, [exact(), exact(failures=(broken,))])
    assert found.verdict is Verdict.FAIL
    assert kind.replace("_", " ") in found.reason
