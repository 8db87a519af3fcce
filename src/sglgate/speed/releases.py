"""The release to judge against the one that serves now: one candidate, two stacks, their launches taking turns."""

from __future__ import annotations

from typing import Final

from sglgate.config import Candidate

#: The gates of suites/launch/test_speed.py: of one release alone, and of two whose launches take turns.
OVER_LAUNCHES: Final = "speed_over_launches"
IN_TURN: Final = "speed_against_release"
#: Under these keys the second leaves the digest of the release that serves now, and the name of the cell.
AGAINST: Final = "against"
CELL: Final = "cell"


class Before(Candidate):
    """A candidate as the release that serves now launches it (``--against``)."""

    @property
    def configuration(self) -> str:
        """Another server than the candidate's own, though nothing of it differs."""
        return f"{super().configuration} before"


def metric_over_launches(cell: str) -> str:
    """What the first calls its figure of a cell."""
    return f"{cell}, tok/s over launches"


def before_of(candidate: Candidate) -> Before:
    """The same candidate on the release that serves now."""
    return Before.model_construct(**dict(candidate) | {"name": f"{candidate.name}--before"})
