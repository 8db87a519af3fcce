"""Is the memory of every GPU whole?"""

from __future__ import annotations

import pytest

from sglgate.node.facts import Card
from sglgate.preflight import gpus


@pytest.mark.gpus(1)
def test_memory_errors(cards: list[Card], judge) -> None:
    """Uncorrected ECC errors, row remaps that wait or failed."""
    judge(gpus.whole(cards))
