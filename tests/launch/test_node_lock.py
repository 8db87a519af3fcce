"""Two runs never share a machine."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sglgate.errors import UnfitError
from sglgate.launch.node_lock import NodeLock


def test_a_second_run_is_refused_and_told_who_holds_the_machine(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with (
        NodeLock(path, "run one"),
        pytest.raises(UnfitError, match=rf"pid {os.getpid()} .*run one"),
        NodeLock(path, "run two"),
    ):
        pytest.fail("both hold it")


def test_a_second_run_waits_if_asked_and_says_so(tmp_path: Path) -> None:
    path, told = tmp_path / "lock", []
    with NodeLock(path, "run one"):
        begun = time.monotonic()
        with (
            pytest.raises(UnfitError),
            NodeLock(path, "run two", wait_s=0.5, tell=told.append),
        ):
            pytest.fail("both hold it")
        assert time.monotonic() - begun >= 0.5
    assert len(told) == 1
    assert "run one" in told[0]


def test_who_waits_gets_the_machine_when_it_is_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = NodeLock(path, "run one")
    first.__enter__()
    threading.Timer(0.4, first.__exit__, (None, None, None)).start()

    with NodeLock(path, "run two", wait_s=10, tell=lambda _: None) as second:
        assert "run two" in second.holder()


def test_a_lock_that_cannot_be_opened_is_unfit(tmp_path: Path) -> None:
    with pytest.raises(UnfitError, match="cannot be opened: Is a directory"), NodeLock(tmp_path, "run"):
        pytest.fail("held")


def test_the_lock_of_a_killed_holder_is_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = (
        "import sys, time; from pathlib import Path; from sglgate.launch.node_lock import NodeLock\n"
        f"with NodeLock(Path({str(path)!r}), 'crashed'):\n  print('held', flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(UnfitError, match="crashed"), NodeLock(path, "second"):
        pytest.fail("both hold it")

    holder.kill()
    holder.wait()
    holder.stdout.close()

    with NodeLock(path, "second") as lock:
        assert "second" in lock.holder()
