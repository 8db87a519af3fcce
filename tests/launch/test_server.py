"""A server is ready when it has answered, dead as soon as its log says so, and gone when it is stopped."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from sglgate.container import parse_container
from sglgate.errors import NotExercisedError
from sglgate.launch import LaunchError, LeftoverError, Server
from sglgate.launch.client import ServerError
from sglgate.launch.leftovers import TAG, tag

MakeServer = Callable[..., Server]


def living(server: Server) -> list[psutil.Process]:
    """Every process that carries this test's tag."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(TAG) == tag() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_ready_means_an_answered_generate(make_server: MakeServer) -> None:
    with make_server() as server:
        assert server.client.generate("Hello", max_new_tokens=2, deadline_s=5)["output_ids"] == [1, 1]
        assert server.info["max_total_num_tokens"] == 4096
        assert server.record.ready
        assert server.phase_s["total"] == pytest.approx(sum(server.phase_s.values()) / 2, abs=0.1)
    assert living(server) == []


def test_health_without_generate_is_not_ready(make_server: MakeServer) -> None:
    server = make_server("health-only")

    with pytest.raises(LaunchError, match="did not answer /generate") as caught:
        server.start()

    assert caught.value.phase == "first_token"
    assert living(server) == []


def test_a_fatal_line_ends_the_launch_while_the_process_lingers(make_server: MakeServer) -> None:
    server = make_server("dies-in-weights", environment={"FAKE_LINGER_S": "60"}, tp_size=2)
    begun = time.monotonic()

    with pytest.raises(LaunchError) as caught:
        server.start()

    assert caught.value.phase == "weights"
    assert caught.value.diagnosis.cause == "weights_oom"
    assert caught.value.noticed_after_s is not None
    assert time.monotonic() - begun < 20
    assert living(server) == []


def test_an_exit_ends_the_launch_and_names_its_cause(make_server: MakeServer) -> None:
    with pytest.raises(LaunchError, match="exited with code 1") as caught:
        make_server("oom").start()

    assert caught.value.diagnosis.cause == "kv_budget_exhausted"
    assert "log: " in str(caught.value)


def test_a_phase_without_progress_ends_at_its_deadline(make_server: MakeServer) -> None:
    with pytest.raises(LaunchError, match="no progress") as caught:
        make_server("hangs-in-weights").start()

    assert caught.value.phase == "weights"


def test_a_command_that_cannot_run_is_a_launch_error(make_server: MakeServer, tmp_path: Path) -> None:
    server = make_server()
    object.__setattr__(server.stack, "python", tmp_path / "absent")
    try:
        with pytest.raises(LaunchError, match="No such file"):
            server.start()
    finally:
        object.__setattr__(server.stack, "python", Path(__file__).parents[1] / "fake_stack" / "python")


def test_stop_kills_what_ignores_sigterm(make_server: MakeServer) -> None:
    server = make_server("ignores-sigterm")
    server.start()

    server.stop()

    assert living(server) == []


def test_stop_kills_an_orphan_in_another_session(make_server: MakeServer) -> None:
    server = make_server("orphan")
    server.start()
    assert any(process.name() == "sleep" for process in living(server)), "the orphan was never there"

    server.stop()

    assert living(server) == []


def test_a_segment_that_the_server_left_is_removed(make_server: MakeServer) -> None:
    name = f"sglang_test_{os.getpid()}"
    server = make_server("leaves-shm", environment={"FAKE_SHM": name})
    server.start()
    assert Path("/dev/shm", name).exists()

    server.stop()

    assert server.swept == [name]
    assert not Path("/dev/shm", name).exists()


def test_a_server_killed_under_load_is_noticed(make_server: MakeServer) -> None:
    server = make_server()
    server.start()
    psutil.Process(server.pid).kill()

    with pytest.raises(ServerError):
        server.client.generate("Hello", max_new_tokens=1, deadline_s=2)
    deadline = time.monotonic() + 5
    while server.dead() is None and time.monotonic() < deadline:
        time.sleep(0.02)

    assert server.dead() == "the server was killed by signal 9"
    server.stop()


def test_a_second_stop_shortens_the_first(make_server: MakeServer) -> None:
    server = make_server("ignores-sigterm")
    server.start()
    kept = server._kept
    assert kept is not None
    assert kept._keeper.stdin is not None
    kept._keeper.stdin.write(b"stop 60\n")
    kept._keeper.stdin.flush()
    time.sleep(0.2)
    begun = time.monotonic()

    server.stop(grace_s=0)

    assert time.monotonic() - begun < 10
    assert living(server) == []


def test_a_stop_without_proof_is_said_again_and_again(make_server: MakeServer) -> None:
    server = make_server()
    server.start()
    kept = server._kept
    assert kept is not None
    kept._keeper.kill()
    kept._keeper.wait()

    assert server.dead() == "the server's keeper was killed"
    for _ in range(2):
        with pytest.raises(LeftoverError, match="not proved gone"):
            server.stop()
    deadline = time.monotonic() + 5
    while living(server) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert living(server) == [], "the kernel ends a server whose keeper is killed"


def test_somebody_elses_file_in_shared_memory_is_left_alone(make_server: MakeServer) -> None:
    server = make_server()
    server.start()
    file, folder = Path(f"/dev/shm/weights-{os.getpid()}"), Path(f"/dev/shm/sglang_folder_{os.getpid()}")
    file.write_bytes(b"x")
    folder.mkdir()
    try:
        server.stop()
        assert file.exists()
        assert server.swept == []
    finally:
        file.unlink()
        folder.rmdir()


def test_a_launch_on_top_of_a_leftover_is_refused(make_server: MakeServer) -> None:
    left = subprocess.Popen(["sleep", "60"], env={**os.environ, TAG: tag().rpartition(":")[0] + ":1"})
    try:
        with pytest.raises(LeftoverError, match=f"pid {left.pid}: sleep 60"):
            make_server().start()
    finally:
        left.kill()
        left.wait()


def test_kill_9_of_the_suite_leaves_nothing(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    code = (
        "import os, sys, time; from pathlib import Path; from sglgate.launch.keeping import Kept\n"
        f"kept = Kept(['sh', '-c', 'setsid sleep 600 & sleep 600'], Path({str(log)!r}), dict(os.environ))\n"
        "print(kept.pid, flush=True); time.sleep(600)"
    )
    mark = f"{tmp_path.name}-{os.getpid()}"
    suite = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={**os.environ, "SGLGATE_TEST": mark}
    )
    assert suite.stdout is not None
    assert int(suite.stdout.readline()) > 0
    time.sleep(0.3)
    assert len(marked(mark)) >= 4, "suite, keeper, shell and both sleeps"

    suite.kill()
    suite.wait()
    suite.stdout.close()

    deadline = time.monotonic() + 5
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert marked(mark) == []


def marked(mark: str) -> list[int]:
    """Living processes with the mark in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("SGLGATE_TEST") == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def test_a_server_that_is_held_still_runs_nowhere_and_goes_on_where_it_stopped(make_server: MakeServer) -> None:
    with make_server() as server:
        server.freeze()
        states = {process.pid: process.status() for process in living(server) if process.pid != os.getpid()}
        # The keeper bears the tag too, and must hear when to wake it.
        keeper = psutil.Process(server.pid).ppid()
        assert server.pid in states
        assert {state for pid, state in states.items() if pid != keeper} == {psutil.STATUS_STOPPED}
        with pytest.raises(ServerError):
            server.client.generate("Hello", max_new_tokens=2, deadline_s=0.5)
        server.thaw()
        assert server.client.generate("Hello", max_new_tokens=2, deadline_s=5)["output_ids"] == [1, 1]
    assert living(server) == []


@pytest.mark.parametrize("fault", ["", "orphan", "ignores-sigterm"])
def test_a_server_that_is_held_still_is_ended_like_any_other(make_server: MakeServer, fault: str) -> None:
    server = make_server(*filter(None, [fault]))
    server.start()
    server.freeze()
    server.stop(grace_s=0.5)

    assert living(server) == []


def test_a_server_in_a_container_cannot_be_held_still(make_server: MakeServer) -> None:
    server = make_server()
    server.stack = replace(server.stack, python=parse_container("docker run image"))

    with pytest.raises(NotExercisedError, match="held still"):
        server.freeze()
