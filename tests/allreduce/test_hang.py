"""A collective that never returns ends at its deadline, with stacks, and leaves nobody behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sglgate.allreduce.world import HangError, RankFailedError, World, WorldError, survivors
from tests.allreduce.ranks import spec

pytestmark = pytest.mark.stack

CASE = {"dtype": "bf16", "shape": (8, 256), "family": "small_ints", "mode": "eager", "round": 0}


def test_a_hang_on_one_rank_ends_with_all_stacks_and_no_survivor(stack_python: Path, tmp_path: Path) -> None:
    with World(spec(stack_python, 2, tmp_path)) as world:
        sessions = world.pids
        started = time.monotonic()
        with pytest.raises(HangError) as caught:
            world.exact([CASE], fault={"name": "hangs_on_rank", "rank": 1}, deadline_s=3)
        assert time.monotonic() - started < 60
        assert caught.value.waiting == (0, 1)
        assert "faults.py" in caught.value.stacks[1], "the rank that hangs shows where"
        assert "_wait_for_all" in caught.value.stacks[0], "the rank that waits shows for what"
        assert survivors(sessions) == []
        with pytest.raises(WorldError, match="this world has ended"):
            world.exact([CASE])


def test_a_rank_that_dies_is_named_and_the_others_die_with_it(stack_python: Path, tmp_path: Path) -> None:
    with World(spec(stack_python, 2, tmp_path)) as world:
        sessions = world.pids
        own_dump = world._stack(world._ranks[0], 0, pyspy=None)
        assert "channel.py" in own_dump, "without py-spy a rank shows its stack itself"
        os.kill(sessions[1], signal.SIGKILL)
        with pytest.raises(RankFailedError) as caught:
            world.exact([CASE], deadline_s=60)
        assert caught.value.rank == 1
        assert "ended during exact" in caught.value.error
        assert survivors(sessions) == []


def test_ranks_end_when_the_suite_is_killed(stack_python: Path, tmp_path: Path) -> None:
    # A suite of its own, killed hard: no handler of ours runs, only the pipes close.
    script = (
        "import sys, time, pathlib\n"
        "sys.path.insert(0, sys.argv[3])\n"
        "from tests.allreduce.ranks import spec\n"
        "from sglgate.allreduce.world import World\n"
        "with World(spec(pathlib.Path(sys.argv[1]), 2, pathlib.Path(sys.argv[2]))) as world:\n"
        "    print(*world.pids, flush=True)\n"
        "    time.sleep(600)\n"
    )
    suite = subprocess.Popen(
        [sys.executable, "-c", script, str(stack_python), str(tmp_path), str(Path(__file__).parents[2])],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert suite.stdout is not None
    with suite.stdout:
        sessions = [int(pid) for pid in suite.stdout.readline().split()]
        assert len(sessions) == 2
        suite.kill()
        suite.wait(timeout=10)
    until = time.monotonic() + 20
    while survivors(sessions) and time.monotonic() < until:
        time.sleep(0.1)
    assert survivors(sessions) == []


def test_a_world_that_cannot_start_says_why(stack_python: Path, tmp_path: Path) -> None:
    broken = spec(stack_python, 2, tmp_path, settings={"enable_no_such_thing": True})
    with pytest.raises(RankFailedError, match="settings unknown to the all-reduce worker"), World(broken):
        pass
