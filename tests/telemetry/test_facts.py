"""From samples to facts: each disturbance becomes the fact that its rule judges, and what is unknown is absent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sglgate.decision import CPU_VOID_RULES, GPU_VOID_RULES, Block
from sglgate.decision.voids import sift
from sglgate.node.facts import GpuSample, HostSample, Process, Sample
from sglgate.telemetry import void_facts

BUSY = {"used_mib": 80000, "utilization_pct": 99, "sm_mhz": 2250, "reasons": 4, "pcie_generation": 5, "pcie_width": 16}


def window(*changes: dict, count: int = 200) -> list[Sample]:
    """``count`` samples of two busy GPUs; ``changes`` is laid over the second GPU of the last samples."""
    looks = []
    for number in range(count):
        late = number - (count - len(changes))
        own = changes[late] if late >= 0 else {}
        looks.append(
            Sample(
                at="",
                t_s=number / 2,
                host=HostSample(cores=8, busy_s=number, own_s=number * 0.9),
                gpus=(
                    GpuSample(index=0, processes=(Process(pid=7),), **BUSY),
                    GpuSample(index=1, processes=own.pop("processes", (Process(pid=8),)), **BUSY | own),
                ),
            )
        )
    return looks


def objections(samples: list[Sample], **options: object) -> str:
    given = {"gpus": (0, 1), "own_pids": (7, 8), "expected_mhz": 2250.0} | options
    facts = void_facts(samples, **given)
    block = Block(1.0, 1.1, "ABBA", facts, facts)
    _, voided = sift(GPU_VOID_RULES if given["gpus"] else CPU_VOID_RULES, [block])
    return voided[0].reason if voided else ""


def test_a_quiet_window_is_valid() -> None:
    assert objections(window()) == ""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ([{"reasons": 0x40}] * 3, "throttled"),
        ([{"reasons": 0x80}] * 3, "throttled"),
        ([{"reasons": None}] * 3, "throttled"),
        ([{"processes": (Process(pid=8), Process(pid=99))}], "foreign process"),
        ([{"pcie_width": 8}], "link width changed"),
        ([{"pcie_generation": 4}] * 9, "link width changed"),
        ([{"sm_mhz": 1200}] * 30, "clock drop"),
        ([{"sm_mhz": None}] * 200, "sm_clock_share is unknown"),
        ([{"utilization_pct": 0}] * 200, "sm_clock_share is unknown"),
    ],
)
def test_a_disturbed_window_is_void_and_says_why(changes: list[dict], reason: str) -> None:
    assert reason in objections(window(*[dict(change) for change in changes]))


def test_one_braked_look_in_two_hundred_is_below_the_rule() -> None:
    assert objections(window({"reasons": 0x20})) == ""


def test_a_link_that_sleeps_while_idle_is_no_change() -> None:
    idle = {"utilization_pct": 0, "pcie_generation": 1, "sm_mhz": 180}
    assert objections(window(idle, dict(idle))) == ""


def test_a_gpu_that_vanished_from_one_look_voids_everything() -> None:
    samples = window()
    samples[100] = replace(samples[100], gpus=samples[100].gpus[:1])

    assert "throttled_share is unknown" in objections(samples)


def test_without_an_expected_clock_the_window_is_void() -> None:
    assert "sm_clock_share is unknown" in objections(window(), expected_mhz=None)


def test_gpus_that_are_not_the_lanes_are_not_looked_at() -> None:
    assert objections(window(*[{"reasons": 0x40, "processes": (Process(pid=99),)} for _ in range(9)]), gpus=(0,)) == ""


def host(*, busy: float = 1.0, own: float | None = 0.95, throttled: int = 0) -> list[Sample]:
    def at(t: float) -> Sample:
        figures = HostSample(
            cores=2,
            busy_s=busy * t,
            own_s=None if own is None else own * t,
            quota_periods=int(10 * t),
            throttled_periods=int(throttled * t),
        )
        return Sample(at="", t_s=t, host=figures)

    return [at(0), at(5), at(10)]


def test_the_cpu_lane_knows_foreign_load_and_throttling() -> None:
    assert objections(host(), gpus=()) == ""
    assert "foreign load" in objections(host(busy=1.5), gpus=())
    assert "throttled" in objections(host(throttled=1), gpus=())
    assert "foreign_cpu_share is unknown" in objections(host(own=None), gpus=())
    assert "throttled_share is unknown" in objections(host()[:1], gpus=())
