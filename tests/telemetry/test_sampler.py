"""The sampling thread: it writes, it serves windows, it costs little, and a gap is never taken for quiet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sglgate.errors import UnfitError
from sglgate.node import Live
from sglgate.node.facts import GpuSample, HostSample, Process, Sample
from sglgate.telemetry import INTERVAL_S, Telemetry

SPIN = "import time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass"


class Node:
    """Gives one sample after the other; raises where it is told to."""

    def __init__(self, *samples: Sample | UnfitError) -> None:
        self._samples = list(samples)

    def sample(self) -> Sample:
        sample = self._samples.pop(0) if len(self._samples) > 1 else self._samples[0]
        if isinstance(sample, UnfitError):
            raise sample
        return sample


def gpu_look(t_s: float, pid: int, sm_mhz: int = 2000) -> Sample:
    gpu = GpuSample(
        index=0,
        used_mib=1,
        utilization_pct=90,
        sm_mhz=sm_mhz,
        reasons=0,
        pcie_generation=5,
        pcie_width=16,
        processes=(Process(pid=pid),),
    )
    return Sample(at="", t_s=t_s, host=HostSample(cores=1, busy_s=0), gpus=(gpu,))


@pytest.fixture
def no_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    import contextlib

    monkeypatch.setattr("sglgate.telemetry.sampler.nvml.session", contextlib.nullcontext)


def test_it_looks_at_least_twice_a_second_and_writes_every_look(tmp_path: Path) -> None:
    file = tmp_path / "telemetry.jsonl"
    with Telemetry(Live(gpus=False), file=file):
        time.sleep(2.2)
    lines = [json.loads(line) for line in file.read_text().splitlines()]

    assert INTERVAL_S <= 0.5
    assert len(lines) >= 3
    assert {"at", "t_s", "host"} <= set(lines[0])
    assert lines[0]["host"]["busy_s"] > 0


def test_own_work_is_not_foreign_and_that_of_a_child_which_ended_neither() -> None:
    with Telemetry(Live(gpus=False)) as telemetry:
        with telemetry.window() as alone:
            time.sleep(0.5)
        with telemetry.window() as window:
            begun = time.monotonic()
            subprocess.run([sys.executable, "-c", SPIN], check=True)
            took_s = time.monotonic() - begun
    cores = os.cpu_count() or 1
    spent = window.samples[-1].host.own_s - window.samples[0].host.own_s

    assert 0.35 < spent < took_s * cores
    assert alone.facts()["foreign_cpu_share"] >= 0
    assert window.facts()["throttled_share"] >= 0


@pytest.mark.parametrize(("pid", "foreign"), [(os.getpid(), 0), (1, 1), (2**22 + 7, 1)])
def test_a_process_that_is_not_ours_is_foreign(pid: int, foreign: int, no_nvml: None, tmp_path: Path) -> None:
    file = tmp_path / "telemetry.jsonl"
    with Telemetry(Node(gpu_look(0, pid)), gpus=(0,), file=file) as telemetry:
        with telemetry.window() as window:
            pass
        assert window.facts()["foreign_processes"] == foreign
    assert json.loads(file.read_text().splitlines()[0])["gpus"][0]["foreign"] == foreign


def test_the_best_window_sets_the_clock_that_later_ones_are_held_against(no_nvml: None) -> None:
    looks = [gpu_look(0, os.getpid(), mhz) for mhz in (2000, 2000, 1500, 1500)]
    with Telemetry(Node(*looks), gpus=(0,)) as telemetry:
        with telemetry.window() as first:
            pass
        with telemetry.window() as second:
            pass
    assert first.facts()["sm_clock_share"] == 1
    assert second.facts()["sm_clock_share"] == 0.75


def test_a_pinned_clock_decides_from_the_first_window_on(no_nvml: None) -> None:
    with Telemetry(Node(gpu_look(0, os.getpid(), 1800)), gpus=(0,), expected_mhz=2000) as telemetry:
        with telemetry.window() as window:
            pass
        assert window.facts()["sm_clock_share"] == pytest.approx(0.9)


def test_a_look_that_failed_makes_the_window_tell_nothing(no_nvml: None, tmp_path: Path) -> None:
    node = Node(gpu_look(0, os.getpid()), UnfitError("NVML failed"), gpu_look(1, os.getpid()))
    file = tmp_path / "telemetry.jsonl"
    with Telemetry(node, gpus=(0,), file=file) as telemetry:
        with telemetry.window() as window:
            telemetry.look()
        assert window.facts() == {}
    assert "NVML failed" in file.read_text()


def test_a_look_costs_a_small_share_of_the_interval() -> None:
    source = Live(gpus=False)
    source.sample()
    begun = time.thread_time()
    for _ in range(10):
        source.sample()
    # CPU time of this thread: how long the machine made it wait is not the sampler's.
    assert (time.thread_time() - begun) / 10 < 0.1 * INTERVAL_S
