"""What the all-reduce tests share: a baseline's answers, taken once for all candidates that have the same baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def said_before() -> dict[str, list[tuple[Path, dict[str, Any]]]]:
    """Of each baseline, by its configuration: log and answers of its two launches."""
    return {}
