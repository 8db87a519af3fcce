"""Is the draft's work accepted, in the mean and position by position?"""

from __future__ import annotations

from fixtures.gate import Gate
from sglgate.config.eagle3 import Eagle3Need
from sglgate.eagle3.acceptance import DEAD_DRAFT, NOTHING, AcceptanceEstimate, judge_pinned
from sglgate.eagle3.record import acceptance_detail
from sglgate.evidence import Verdict
from sglgate.load.stats import judge_floor


def test_draft_is_accepted(accepted: AcceptanceEstimate, gate: Gate) -> None:
    """A draft of which nothing is accepted costs time and changes no answer: nothing else would show it."""
    first = accepted.first
    gate.judge(
        "first drafts accepted",
        first.value,
        NOTHING,
        "at_least",
        "of verify steps",
        verdict=Verdict.FAIL if accepted.is_dead else Verdict.PASS,
        n=first.n,
        interval=first.interval,
        reason=DEAD_DRAFT if accepted.is_dead else "",
        detail=acceptance_detail(accepted),
    )


def test_mean_above_floor(accepted: AcceptanceEstimate, need: Eagle3Need, gate: Gate) -> None:
    """The lower end of the interval over prompts holds the floor."""
    mean, floor = accepted.mean, need.acceptance.min_mean
    assert floor is not None
    gate.judge(
        "mean acceptance length",
        mean.value,
        floor,
        "at_least",
        "tokens",
        verdict=judge_floor(mean, floor),
        n=mean.n,
        interval=mean.interval,
    )


def test_mean_as_pinned(accepted: AcceptanceEstimate, need: Eagle3Need, gate: Gate) -> None:
    """Neither less (the draft got worse) nor more (the verify lets more pass) than on record."""
    mean, pinned, width = accepted.mean, need.acceptance.pinned, need.acceptance.tolerance
    assert pinned is not None
    bounds = (pinned - width, pinned + width)
    verdict = judge_pinned(mean, pinned, width)
    gate.judge("mean acceptance length", mean.value, bounds, "within", "tokens", verdict=verdict, n=mean.n)


def test_positions_above_floors(accepted: AcceptanceEstimate, need: Eagle3Need, gate: Gate) -> None:
    """A mean may hide a position that fell; a position without a rate is not green."""
    for place, floor in enumerate(need.acceptance.min_position_rates, 1):
        found = accepted.positions[place - 1] if place <= len(accepted.positions) else None
        gate.judge(
            f"drafts accepted at position {place}",
            found.value if found else None,
            floor,
            "at_least",
            "of verify steps",
            verdict=judge_floor(found, floor) if found else None,
            n=found.n if found else 0,
            interval=found.interval if found else None,
        )
