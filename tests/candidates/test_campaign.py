"""Every candidate of the Blackwell lane is one that real SGLang releases accept, or says which do not have it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sglgate.allreduce.paths import PATHS
from sglgate.config import Candidate
from sglgate.diagnosis import diagnose_file
from sglgate.errors import MisuseError
from sglgate.stack import Stack, find_stack, read_stack
from sglgate.stack_fit import check_candidates, check_environment
from tests.candidates.record import ANSWERS, ROOT, ask, campaign

RECORDED = sorted(ANSWERS.glob("*.json"), key=lambda path: path.stem)
#: Read here: the tests themselves see no stack of the person who runs them.
STACK = os.environ.get("SGLGATE_STACK")
AGAIN = "run python -m tests.candidates.record with stacks of 0.5.9 and 0.5.23"


@pytest.fixture(params=RECORDED, ids=lambda path: path.stem)
def recorded(request: pytest.FixtureRequest) -> dict[str, Any]:
    return json.loads(request.param.read_text())


def test_the_releases_that_were_asked() -> None:
    assert {path.stem for path in RECORDED} >= {"0.5.9", "0.5.23"}


def test_what_was_asked_is_what_is_launched_now(recorded: dict[str, Any]) -> None:
    _, candidates = campaign()
    asked = {name: answer["configuration"] for name, answer in recorded["candidates"].items()}

    assert asked == {c.name: c.configuration for c in candidates}, AGAIN


def test_a_candidate_that_claims_a_release_is_accepted_by_it(recorded: dict[str, Any]) -> None:
    _, candidates = campaign()
    claims = {c.name: c.fits(recorded["sglang"]) for c in candidates}

    refused = {
        name: answer["problem"] for name, answer in recorded["candidates"].items() if answer["problem"] and claims[name]
    }
    assert refused == {}


def test_most_candidates_are_for_both_releases_or_the_newer() -> None:
    _, candidates = campaign()

    only_old = [c.name for c in candidates if not c.fits("0.5.23")]
    assert only_old == ["kimi-k25-tp8-flashinfer-fusion-old", "kimi-k25-tp8-mscclpp"]


@pytest.mark.stack
def test_the_stack_says_what_was_recorded() -> None:
    stack = read_stack(find_stack(STACK, ROOT))
    file = ANSWERS / f"{stack.sglang}.json"
    if not file.exists():
        pytest.skip(f"SGLang {stack.sglang} was never asked")

    assert ask(stack) == json.loads(file.read_text()), AGAIN


def test_what_the_campaign_must_hold_is_there() -> None:
    _, candidates = campaign()
    by_name = {c.name: c for c in candidates}
    settings = {
        (
            c.environment.get("SGLANG_ENABLE_PCIE_IPC_ALLREDUCE"),
            c.arguments["speculative-num-steps"],
            c.arguments["speculative-eagle-topk"],
        )
        for c in candidates
        if "speculative-num-steps" in c.arguments and c.tensor_parallel == 8
    }
    assert settings == {(ipc, steps, topk) for ipc in (None, "1") for steps in range(1, 6) for topk in (1, 2, 4)}
    few = by_name["kimi-k25-tp8-few-channels"].environment
    assert (few["NCCL_BUFFSIZE"], few["NCCL_MIN_NCHANNELS"], few["NCCL_MAX_NCHANNELS"]) == ("131072", "1", "2")
    assert by_name["kimi-k25-tp8"].environment["NCCL_BUFFSIZE"] == str(16 * 1024 * 1024)
    assert {c.tensor_parallel for c in candidates} == {1, 2, 4, 8}


@pytest.mark.parametrize("topk", [1, 2, 4])
def test_drafted_tokens_fit_in_the_tree(topk: int) -> None:
    _, candidates = campaign()
    for c in candidates:
        if c.arguments.get("speculative-eagle-topk") == topk:
            steps, tokens = c.arguments["speculative-num-steps"], c.arguments["speculative-num-draft-tokens"]
            # topk roots, then topk children of each of the topk that go on; and the token that is verified anyway.
            in_tree = topk + (steps - 1) * topk * topk + 1
            assert tokens <= in_tree
            assert topk > 1 or tokens == steps + 1


def test_a_refused_path_is_a_known_one_that_is_not_the_one_that_serves() -> None:
    _, candidates = campaign()
    refused = [c.expect.allreduce for c in candidates if c.expect.allreduce and c.expect.allreduce.refused]
    assert len(refused) == 3
    for path in refused:
        assert path.refused.path in PATHS
        assert path.refused.path != path.path


def candidate(name: str, **fields: Any) -> Candidate:
    base = {"name": name, "profile": "p", "file": f"{name}.toml", "reason": "tests", "model": "m"}
    return Candidate.model_validate(base | fields)


def test_a_candidate_for_other_releases_is_left_out_and_told(fake_stack: Stack) -> None:
    kept, left_out = check_candidates(fake_stack, [candidate("new"), candidate("old", sglang="<0.5.14")], {})

    assert [c.name for c in kept] == ["new"]
    assert left_out == {"old": "for SGLang <0.5.14, this stack has 0.5.23"}


def test_a_candidate_that_was_asked_for_by_name_is_not_left_out(fake_stack: Stack) -> None:
    with pytest.raises(MisuseError, match=r"old.toml: sglang: is for SGLang <0.5.14, this stack has 0.5.23"):
        check_candidates(fake_stack, [candidate("new"), candidate("old", sglang="<0.5.14")], {}, ["old"])


def test_a_lane_of_which_nothing_is_left_is_misuse(fake_stack: Stack) -> None:
    with pytest.raises(MisuseError, match="another --stack"):
        check_candidates(fake_stack, [candidate("old", sglang="<0.5.14")], {})


def test_a_misspelt_environment_name_is_told_before_anything_starts(fake_stack: Stack) -> None:
    right = candidate("right", environment={"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1", "OMP_NUM_THREADS": "1"})
    check_environment(fake_stack, [right], {})
    wrong = candidate("wrong", environment={"SGLANG_ENABLE_PCIE_IPC_ALL_REDUCE": "1"})

    with pytest.raises(MisuseError, match=r"environment.SGLANG_ENABLE_PCIE_IPC_ALL_REDUCE: nothing in SGLang"):
        check_environment(fake_stack, [right, wrong], {})


def test_a_range_that_is_none_is_told() -> None:
    with pytest.raises(ValueError, match="not a range of releases"):
        candidate("c", sglang="since 0.5.14")


@pytest.mark.parametrize("wrapped", ["", "Capture cuda graph failed: "])
def test_the_failure_that_a_fusion_on_sm120_must_end_in_is_the_declared_one(wrapped: str, tmp_path: Path) -> None:
    # The text of flashinfer_comm_fusion.py, 0.5.14 to 0.5.23; where it is raised was read, never seen on a GPU.
    raised = f"{wrapped}FlashInfer allreduce fusion requires SM90 or SM10X NVIDIA GPUs."
    log = tmp_path / "server.log"
    log.write_text(
        "[2026-11-01 10:00:00 TP0] Load weight end. elapsed=300.00 s, type=KimiK25ForConditionalGeneration, "
        "avail mem=22.00 GB, mem usage=71.00 GB.\n"
        "[2026-11-01 10:00:09 TP3] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "flashinfer_comm_fusion.py", line 49, in _resolve_backend\n'
        f"ValueError: {raised}\n\n"
        "[2026-11-01 10:00:09] Received sigquit from a child process. It usually means the child failed.\n"
    )
    _, candidates = campaign()
    (candidate,) = [c for c in candidates if c.expect.failure]

    assert diagnose_file(log).cause == candidate.expect.failure.cause
