"""One world of two ranks and one of four for all negative controls: starting one costs most of a minute."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sglgate.allreduce.world import World
from tests.allreduce.ranks import spec


@pytest.fixture(scope="session")
def world_of_2(stack_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(spec(stack_python, 2, tmp_path_factory.mktemp("world2")), start_limit_s=600) as world:
        yield world


@pytest.fixture(scope="session")
def world_of_4(stack_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(spec(stack_python, 4, tmp_path_factory.mktemp("world4")), start_limit_s=600) as world:
        yield world
