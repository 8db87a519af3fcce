"""How much of the draft is accepted: mean and per position, with intervals, and what they are held against. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sglgate.errors import SglgateError
from sglgate.evidence import Verdict
from sglgate.load import RequestResult
from sglgate.load.stats import Estimate

_LEVEL: Final = 0.95
#: Below this share of accepted first drafts the draft proposes nothing that the target would say.
NOTHING: Final = 0.02

DEAD_DRAFT: Final = (
    "acceptance 1.0 with a healthy server: the draft proposes nothing that the target accepts. Usual causes: the draft "
    "was not trained (or its weights were not loaded), the prompts miss the chat template that it was trained with, or "
    "the target captures other hidden layers than the draft expects"
)


class NoAcceptanceError(SglgateError):
    """The server reported no verify step: it did not speculate, whatever its arguments say."""


@dataclass(frozen=True)
class AcceptanceEstimate:
    """``mean``: tokens a verify step. ``positions[j]``: share of verify steps that accepted at least j + 1 drafts.

    ``drafts``: drafts accepted a verify step. Not ``mean - 1``: the first token of an answer is the prefill's, so that
    a draft of which nothing is accepted has a mean a little above 1.
    """

    mean: Estimate
    positions: tuple[Estimate, ...]
    drafts: Estimate

    @property
    def first(self) -> Estimate:
        """Share of verify steps that accepted a draft; where no server counts them by position, drafts a step."""
        return self.positions[0] if self.positions else self.drafts

    @property
    def is_dead(self) -> bool:
        """Whether the draft is accepted (nearly) never."""
        return self.first.value <= NOTHING


def estimate(requests: Sequence[RequestResult]) -> AcceptanceEstimate:
    """From at least three requests.

    Raises:
        NoAcceptanceError: none of them was speculated on, or fewer than three were.
    """
    seen = [r for r in requests if r.failure is None and r.verify_steps]
    if len(seen) < 3:
        raise NoAcceptanceError(
            f"{len(seen)} of {len(requests)} answers report verify steps (spec_verify_ct), 3 needed"
        )
    steps = [r.verify_steps or 0 for r in seen]
    totals = [sum(r.draft_histogram) for r in seen]
    # SGLang's histogram ends at the longest run that it saw: of a dead draft it has one entry, and a first place.
    places = max(2, *(len(r.draft_histogram) for r in seen)) - 1 if any(totals) else 0
    return AcceptanceEstimate(
        mean=_ratio([r.completion_tokens for r in seen], steps),
        positions=tuple(_ratio([sum(r.draft_histogram[j + 1 :]) for r in seen], totals) for j in range(places)),
        drafts=_ratio([r.completion_tokens - 1 - (r.verify_steps or 0) for r in seen], steps),
    )


def _ratio(above: Sequence[float], below: Sequence[float]) -> Estimate:
    """Sum over sum, and its jackknife interval: requests are independent, the steps of one request are not."""
    from scipy.special import stdtrit

    n, a, b = len(above), sum(above), sum(below)
    value = a / b if b else 0.0
    parts = [(a - x) / (b - y) for x, y in zip(above, below, strict=True) if b - y > 0]
    middle = math.fsum(parts) / len(parts) if parts else value
    error = math.sqrt((n - 1) / n * math.fsum((p - middle) ** 2 for p in parts))
    reach = float(stdtrit(n - 1, 0.5 + _LEVEL / 2)) * error
    return Estimate(value, (value - reach, value + reach), n)


def judge_pinned(found: Estimate, pinned: float, tolerance: float) -> Verdict:
    """Two-sided, by the value itself.

    The prompts are fixed and the answers greedy, so the value has no sampling noise against a value pinned on the
    same prompts: more acceptance than pinned is as much a change (a verify that lets too much pass) as less.
    """
    return Verdict.PASS if abs(found.value - pinned) <= tolerance else Verdict.FAIL
