"""Runs for the tests of the page: a small one of given records, and the made-up one that shows everything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sglgate.evidence import Evidence
from sglgate.run import Run, RunInfo, now
from tests.report.made import make_run as make_whole_run

NODE = {"cpu": "a CPU", "cores": 2, "ram_gib": 8.0, "kernel": "6", "gpus": []}


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """A run's folder with these records; ``info`` are further fields of ``run.json``."""

    def make(*records: Evidence, finished: bool = True, **info: Any) -> Path:
        defaults = {"name": "r", "profile": "cpu", "sglgate": "0", "started": now(), "selection": "cpu", "node": NODE}
        run = Run.begin(tmp_path, RunInfo.model_validate(defaults | info))
        for record in records:
            run.add(record)
        if finished:
            run.close(0)
        return run.folder

    return make


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_whole_run(tmp_path_factory.mktemp("whole"))
