"""A candidate is launched once; a failure is remembered, never retried; a leftover ends all launching."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from sglgate.launch import LaunchError, LeftoverError
from sglgate.launch.pool import ServerPool


class _Server:
    def __init__(self, candidate: SimpleNamespace, log: Path) -> None:
        self.candidate, self.log, self.stopped, self.problem = candidate, log, 0, None
        self.configuration = "as it is made"
        self.frozen = False

    def start(self) -> None:
        if self.candidate.fails:
            raise self.candidate.fails

    def stop(self, grace_s: float | None = None) -> None:
        self.stopped += 1
        if self.candidate.sticks:
            raise LeftoverError("memory is not back", phase="stop")

    def freeze(self) -> None:
        self.frozen = True

    def dead(self) -> str | None:
        return self.problem

    def diagnose(self) -> None:
        return None


def candidate(name: str, fails: Exception | None = None, sticks: bool = False) -> SimpleNamespace:
    return SimpleNamespace(name=name, fails=fails, sticks=sticks, tensor_parallel=1, configuration=name)


@pytest.fixture
def made() -> list[_Server]:
    return []


@pytest.fixture
def notes() -> list[tuple[str, str | None]]:
    return []


@pytest.fixture
def pool(made: list[_Server], notes: list[tuple[str, str | None]], tmp_path: Path) -> ServerPool:
    def make(candidate: SimpleNamespace, log: Path, slots: tuple[int, ...]) -> _Server:
        made.append(_Server(candidate, log))
        return made[-1]

    return ServerPool(make, tmp_path, lambda server, problem: notes.append((server.log.name, problem)))


def test_a_candidate_is_launched_once(pool: ServerPool, made: list[_Server]) -> None:
    one = candidate("one")

    assert pool.get(one) is pool.get(one)
    assert len(made) == 1


def test_one_server_under_two_names_is_launched_once(pool: ServerPool, made: list[_Server]) -> None:
    one, other = candidate("one"), candidate("other")
    other.configuration = one.configuration

    assert pool.get(one) is pool.get(other)
    assert len(made) == 1


def test_another_candidate_ends_the_one_before(pool: ServerPool, made: list[_Server]) -> None:
    pool.get(candidate("one"))
    pool.get(candidate("two"))

    assert [server.stopped for server in made] == [1, 0]


def test_fresh_launches_again_with_a_log_of_its_own(pool: ServerPool, made: list[_Server]) -> None:
    pool.get(candidate("one"))
    pool.fresh(candidate("one"))

    assert [server.log.name for server in made] == ["one.1.log", "one.2.log"]


def test_every_launch_is_noted_and_every_failed_one_with_its_problem(
    pool: ServerPool, notes: list[tuple[str, str | None]]
) -> None:
    pool.get(candidate("one"))
    with pytest.raises(LaunchError):
        pool.get(candidate("broken", LaunchError("no", phase="weights")))

    assert notes == [("one.1.log", None), ("broken.1.log", "launch failed in phase weights: no")]


def test_a_server_that_was_stopped_is_not_buried(pool: ServerPool, made: list[_Server]) -> None:
    server = pool.get(candidate("one"))
    pool.stop()
    made[0].problem = "the server exited with code 0"

    assert pool.bury(server) is None


def test_an_interrupted_stop_leaves_the_server_to_the_next(
    pool: ServerPool, made: list[_Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool.get(candidate("one"))

    def interrupted(_: float | None) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(made[0], "stop", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pool.stop()
    pool.stop()

    assert made[0].stopped == 1


def test_two_stand_together_each_held_still_and_the_last_goes_first(pool: ServerPool, made: list[_Server]) -> None:
    ended: list[str] = []
    pool.get(candidate("alone"))
    with pool.together(candidate("one"), candidate("two")) as servers:
        assert [server.candidate.name for server in servers] == ["one", "two"]
        assert all(server.frozen for server in servers)
        assert [server.stopped for server in made] == [1, 0, 0]
        for server in made[1:]:
            server.stop = lambda _=None, name=server.candidate.name: ended.append(name)

    assert ended == ["two", "one"]
    assert not pool.is_running


def test_nobody_is_handed_a_server_that_is_held_still(pool: ServerPool, made: list[_Server]) -> None:
    def fail() -> None:
        with pool.together(candidate("one"), candidate("broken", LaunchError("no", phase="weights"))):
            raise AssertionError("unreached")

    with pytest.raises(LaunchError):
        fail()
    assert not pool.get(candidate("one")).frozen
    assert [server.stopped for server in made] == [1, 0, 0]


def test_a_failed_launch_is_not_retried(pool: ServerPool, made: list[_Server]) -> None:
    broken = candidate("broken", LaunchError("no", phase="weights"))
    for _ in range(3):
        with pytest.raises(LaunchError, match="phase weights"):
            pool.get(broken)

    assert len(made) == 1


def test_a_server_that_died_is_not_launched_again(pool: ServerPool, made: list[_Server]) -> None:
    server = pool.get(candidate("one"))
    made[0].problem = "the server was killed by signal 9"

    assert "killed by signal 9" in str(pool.bury(server))
    with pytest.raises(LaunchError, match="phase serving"):
        pool.get(candidate("one"))


def test_a_leftover_ends_all_launching(pool: ServerPool, made: list[_Server]) -> None:
    pool.get(candidate("one", sticks=True))
    with pytest.raises(LeftoverError):
        pool.get(candidate("two"))
    with pytest.raises(LeftoverError):
        pool.get(candidate("three"))

    assert [server.candidate.name for server in made] == ["one"]


def test_hostile_names_stay_inside_the_log_folder(pool: ServerPool, made: list[_Server], tmp_path: Path) -> None:
    pool.fresh(candidate("../../etc/passwd\n<script>"))

    assert made[0].log.parent == tmp_path
    assert made[0].log.name.isprintable()
