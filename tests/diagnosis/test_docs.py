"""The table of causes in the documentation is the one in the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglgate.diagnosis.causes import CAUSES

TEXT = (Path(__file__).parents[2] / "docs" / "diagnose.md").read_text()


@pytest.mark.parametrize("name", sorted(CAUSES))
def test_the_documented_row_of_a_cause_says_what_the_code_says(name):
    cause = CAUSES[name]
    assert f"| `{name}` | {cause.meaning} | {cause.remedy} | {cause.avoid or '-'} |" in TEXT
