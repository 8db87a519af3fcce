"""One gate's record: what was measured, against which bound, on what, with which verdict."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

SCHEMA_VERSION: Literal[1] = 1
#: The key of ``Evidence.detail`` under which a gate leaves its A/A blocks: {metric: [log ratio, ...]}.
AA_DETAIL: Final = "aa_log_ratios"


class Verdict(StrEnum):
    """Only ``PASS`` is green."""

    PASS = "PASS"  # noqa: S105 - a verdict, not a password
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    NOT_EXERCISED = "NOT_EXERCISED"
    UNFIT = "UNFIT"


# JSON has no infinities and pydantic would write null: an unbounded interval must survive the round trip.
Number = Annotated[
    float,
    BeforeValidator(lambda v: float(v) if isinstance(v, str) else v),
    PlainSerializer(lambda v: v if math.isfinite(v) else str(v), when_used="json"),
]


def number(value: object) -> float | None:
    """A finite number that is no truth value, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:  # an integer that no float holds
        return None
    return found if math.isfinite(found) else None


class Evidence(BaseModel):
    """One line of ``evidence.jsonl``.

    ``value`` and ``bound`` are in ``unit``; ``direction`` says on which side of the bound green lies.
    ``interval`` is the confidence interval of ``value`` (same unit), ``n`` the number of independent samples
    behind it. ``detail`` holds what a reader needs to believe the verdict and what a report draws from.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = SCHEMA_VERSION
    at: str = Field(description="UTC, ISO 8601")
    run: str
    profile: str
    candidate: str
    suite: str = Field(description="preflight, kv, allreduce, eagle3")
    gate: str = Field(description="name of the property, unique within its suite")
    test: str = Field(description="pytest node id")
    verdict: Verdict
    reason: str = Field(description="one sentence; for a red verdict, why")
    metric: str
    value: Number | int | bool | str | None
    bound: Number | int | bool | str | None
    direction: Literal["at_least", "at_most", "equal", "within"]
    unit: str
    n: int = 1
    interval: tuple[Number, Number] | None = None
    stack: str = Field(default="", description="fingerprint digest of the stack")
    logs: tuple[str, ...] = Field(default=(), description="paths relative to the run folder")
    detail: dict[str, Any] = Field(default_factory=dict)
