import gzip
import json
from pathlib import Path

import pytest

from sglgate.allreduce import budget, paths
from sglgate.errors import MisuseError
from sglgate.evidence import Verdict

STEPS, PER_STEP = 3, 9


def event(name: str, start_us: float, duration_us: float, category: str = "cpu_op") -> dict:
    return {"ph": "X", "cat": category, "name": name, "ts": start_us, "dur": duration_us}


def trace(name: str, category: str = "cpu_op", count: int = STEPS * PER_STEP) -> list[dict]:
    reductions = [event(name, number * 100.0, 40.0, category) for number in range(count)]
    return [event("aten::mm", 5.0, 80.0), {"ph": "M", "name": "process_name"}, *reductions]


def of(events: list[dict], **rest: float) -> budget.Budget:
    return budget.budget(budget.reductions(events), kind="decode", steps=STEPS, **rest)


def test_the_budget_counts_times_and_bounds_what_can_be_saved() -> None:
    found = of(trace("gloo:all_reduce"), step_ms=3.6)
    assert found.all_reduces_per_step == PER_STEP
    assert found.us_each == 40.0
    assert found.ms_per_step == pytest.approx(0.36)
    assert found.share_of_step == pytest.approx(0.1)
    assert found.by_path == {"gloo": STEPS * PER_STEP}


def test_on_a_gpu_only_kernels_count() -> None:
    events = trace("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "kernel")
    events += trace("nccl:all_reduce ncclDevKernel_AllReduce")
    assert of(events).all_reduces_per_step == PER_STEP


def test_the_geometry_of_a_dense_model_has_two_a_layer_and_the_embedding() -> None:
    assert budget.geometry_count(4) == 9
    assert budget.geometry_count(30) == 61


def test_a_server_that_used_the_declared_path_passes() -> None:
    found = budget.judge_server(paths.path("gloo"), [of(trace("gloo:all_reduce"))] * 2, PER_STEP)
    assert found.verdict is Verdict.PASS
    assert "9 all-reduces a decode step, 40.0 us each" in found.reason


def test_a_server_that_used_another_path_is_not_exercised() -> None:
    found = budget.judge_server(paths.path("shm"), [of(trace("gloo:all_reduce"))], PER_STEP)
    assert found.verdict is Verdict.NOT_EXERCISED
    assert "reduced by gloo, not by shm" in found.reason


def test_one_reduction_too_few_fails() -> None:
    found = budget.judge_server(paths.path("gloo"), [of(trace("gloo:all_reduce", count=26))], PER_STEP)
    assert found.verdict is Verdict.FAIL


@pytest.mark.parametrize("budgets", [[], [of([])]])
def test_no_profile_and_an_empty_profile_are_not_exercised(budgets: list) -> None:
    assert budget.judge_server(paths.path("gloo"), budgets).verdict is Verdict.NOT_EXERCISED


def test_traces_are_read_zipped_and_plain(tmp_path: Path) -> None:
    raw = json.dumps({"traceEvents": trace("gloo:all_reduce")})
    (tmp_path / "a.json").write_text(raw)
    with gzip.open(tmp_path / "a.json.gz", "wt") as file:
        file.write(raw)
    plain, zipped = (budget.read_trace(tmp_path / name) for name in ("a.json", "a.json.gz"))
    assert plain == zipped
    assert len(budget.reductions(plain)) == STEPS * PER_STEP


@pytest.mark.parametrize("content", [b"", b"[1", b'{"a": 1}'])
def test_what_is_not_a_trace_is_misuse(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(MisuseError, match="not a Chrome trace"):
        budget.read_trace(tmp_path / "a.json")
    (tmp_path / "a.json.gz").write_bytes(content)
    with pytest.raises(MisuseError, match="not a Chrome trace"):
        budget.read_trace(tmp_path / "a.json.gz")
