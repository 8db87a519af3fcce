"""The page on preflight names every check, and every recorded fault has a sentence."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("file", sorted((ROOT / "suites" / "preflight").glob("test_*.py")), ids=lambda path: path.stem)
def test_the_page_names_every_check(file: Path) -> None:
    page = (ROOT / "docs" / "preflight.md").read_text()

    for name in re.findall(r"^def test_(\w+)", file.read_text(), re.MULTILINE):
        assert f"`{name}`" in page


def test_every_recorded_node_says_what_it_is_and_that_it_was_written() -> None:
    for path in (ROOT / "fixtures" / "replay").rglob("recording.json"):
        about = json.loads(path.read_text())
        assert len(about["about"]) > 10
        assert about["made"] == "written"
