"""Runs for the tests of the page: a small one of given records, and the made-up one that shows everything."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from sglgate.evidence import Evidence
from sglgate.run import Run, RunInfo, now
from tests.report.made import make_run as make_whole_run

NODE = {"cpu": "a CPU", "cores": 2, "ram_gib": 8.0, "kernel": "6", "gpus": []}


def evidence(**fields: Any) -> Evidence:
    defaults: dict[str, Any] = {
        "at": now(), "run": "r", "profile": "cpu", "candidate": "c", "suite": "kv", "gate": "g", "test": "t",
        "verdict": "PASS", "reason": "", "metric": "m", "value": 1, "bound": 1, "direction": "equal", "unit": "",
    }  # fmt: skip
    return Evidence.model_validate(defaults | fields)


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """A run's folder with these records; ``info`` are further fields of ``run.json``."""

    def make(*records: Evidence, finished: bool = True, **info: Any) -> Path:
        defaults = {"name": "r", "profile": "cpu", "sglgate": "0", "started": now(), "selection": "cpu", "node": NODE}
        run = Run(tmp_path, RunInfo.model_validate(defaults | info))
        for record in records:
            run.add(record)
        if finished:
            run.close(0)
        return run.folder

    return make


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_whole_run(tmp_path_factory.mktemp("whole"))


class Page(HTMLParser):
    """The tags of a page with their attributes, in order, and the text within each kind of tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: dict[str, list[str]] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.text.setdefault(tag, []).append(data)

    def all(self, *names: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag in names]
