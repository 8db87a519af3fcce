"""A machine that an ended run left dirty is told so, and gets no further job until it is clean."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sglgate import dirt
from sglgate.cli import main
from sglgate.launch.leftovers import TAG, tag
from sglgate.launch.node_lock import NodeLock, default_lock_file
from sglgate.node.facts import GpuSample, Process


def gpu(index: int, used_mib: int, **processes: int) -> GpuSample:
    held = tuple(Process(pid=int(name[1:]), used_mib=mib) for name, mib in processes.items())
    return GpuSample(index=index, used_mib=used_mib, processes=held)


@pytest.fixture
def leftover() -> subprocess.Popen[bytes]:
    """A process of a run that no longer exists."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env={**os.environ, TAG: _dead()})
    yield process
    process.kill()
    process.wait()


def _dead() -> str:
    return tag().rpartition(":")[0] + ":999999999"


@pytest.fixture
def no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dirt, "_gpus", list)


def test_an_idle_gpu_is_clean_and_a_held_one_is_not() -> None:
    assert dirt.gpu_dirt([gpu(0, 4), gpu(1, 600)], 1024) == []
    assert "GPU 1 has processes: pid 7, pid 12" in dirt.gpu_dirt([gpu(1, 90000, p12=1, p7=2)], 1024)[0]
    assert "it may need a reset" in dirt.gpu_dirt([gpu(2, 2000)], 1024)[0]


@pytest.mark.usefixtures("no_gpus")
def test_a_dirty_machine_is_marked_until_it_is_clean(
    leftover: subprocess.Popen[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = tmp_path / "state" / "out-of-service"

    assert main(["node", "--out-of-service", str(mark)]) == 3
    assert f"pid {leftover.pid}" in mark.read_text()
    assert "dirty     a server's process is left" in capsys.readouterr().out

    assert main(["node", "--end-leftovers", "--out-of-service", str(mark)]) == 0
    assert leftover.wait(timeout=10) != 0
    assert not mark.exists()
    assert f"ended     pid {leftover.pid}" in capsys.readouterr().out


@pytest.mark.usefixtures("no_gpus")
def test_a_run_that_goes_on_is_no_dirt_and_is_not_ended(
    leftover: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    with NodeLock(default_lock_file(), "run of somebody"):
        assert main(["node", "--end-leftovers", "--json"]) == 0

    assert leftover.poll() is None
    told = json.loads(capsys.readouterr().out)
    assert told["holder"]["purpose"] == "run of somebody"
    assert told["dirt"] == []


@pytest.mark.usefixtures("no_gpus")
def test_who_waits_for_the_machine_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    from sglgate.launch.node_lock import node_queue

    with NodeLock(default_lock_file(), "first"), node_queue(default_lock_file()).stand("second"):
        main(["node"])

    out = capsys.readouterr().out
    assert "machine   pid" in out
    assert "first, for 0 min" in out
    assert "  1. waits  pid" in out
    assert "second, for 0 min" in out
