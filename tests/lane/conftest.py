"""Lanes against the stand-in stack."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lane.lanes import Lane


@pytest.fixture
def lane(tmp_path: Path) -> Lane:
    """In a folder of its own."""
    (tmp_path / "lane").mkdir()
    return Lane(tmp_path / "lane")
