"""What a candidate may expect of speculation: ``[expect.eagle3]``."""

from __future__ import annotations

import re
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from sglgate.config.profile import _Strict


def _ascending(looks: list[int]) -> list[int]:
    if not looks or looks[0] < 2 or looks != sorted(set(looks)):
        raise ValueError("must be ascending counts, the first at least 2")
    return looks


def _has_prompt(template: str) -> str:
    if "{prompt}" not in template:
        raise ValueError("has no {prompt}")
    return template


Looks = Annotated[list[int], AfterValidator(_ascending)]
Template = Annotated[
    str,
    AfterValidator(_has_prompt),
    Field(description="text around each prompt; a draft accepts little without the one that it was trained with"),
]
_CELL: Final = re.compile(r"^[a-z0-9_]+@[1-9][0-9]*$")


class SpeedNeed(_Strict):
    """Which cells (prompt kind x concurrency, such as "chat@1") must win, and which only must not lose.

    Each comparison launches both servers anew, so it costs at least two launches for each block.
    """

    min_ratio: dict[str, float] = Field(default={}, description='must win: "chat@1" = 1.05, speculative / plain tok/s')
    max_loss: dict[str, float] = Field(default={}, description='must not lose: "json@4" = 0.03 is the margin')
    slower_because: str = Field(default="", description="why a bound may lie below 1; needed where one does")
    requests: int = Field(default=16, gt=0, description="measured requests per cell and launch")
    output_tokens: int = Field(default=128, ge=2, description="tokens of each request")
    design_effect: float = Field(default=0.05, gt=0, lt=1, description="the difference that must be seen, a fraction")
    looks: Looks = Field(default=[2, 4, 6, 8], description="valid blocks at which a verdict may fall; last: cap")
    aa_looks: Looks = Field(default=[2, 4, 6], description="the same for plain against plain, before")

    @field_validator("min_ratio", "max_loss")
    @classmethod
    def _cells(cls, cells: dict[str, float]) -> dict[str, float]:
        for name, bound in cells.items():
            if not _CELL.match(name):
                raise ValueError(f"{name!r} is no cell: write KIND@CONCURRENCY, such as 'chat@1'")
            if not bound > 0:
                raise ValueError(f"{name!r}: {bound} must be above 0")
        return cells

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if both := sorted(self.min_ratio.keys() & self.max_loss.keys()):
            raise ValueError(f"{both[0]!r} stands in min_ratio and in max_loss: a cell has one bound")
        if not self.min_ratio and not self.max_loss:
            raise ValueError("no cell: name at least one in min_ratio or max_loss")
        if any(loss >= 1 for loss in self.max_loss.values()):
            raise ValueError("a max_loss of 1 or more would accept anything")
        if any(ratio < 1 for ratio in self.min_ratio.values()) and not self.slower_because:
            raise ValueError("a min_ratio below 1 lets speculation lose: say why in slower_because")
        return self

    @property
    def bounds(self) -> dict[str, float]:
        """The lowest ratio of each cell."""
        return {**self.min_ratio, **{cell: 1 - loss for cell, loss in self.max_loss.items()}}


class AnswersNeed(_Strict):
    """How far the answers are compared."""

    kinds: list[str] = Field(default=["chat", "code", "json"], min_length=1, description="prompt sets to draw from")
    prompts: int = Field(default=2, gt=0, description="prompts of each kind")
    tokens: int = Field(default=64, ge=8, description="tokens of each answer")
    tie_nats: float = Field(
        default=0.15, ge=0, lt=1, description="the target's own logprob gap up to which a first difference is a tie"
    )
    sampled: bool = Field(default=False, description="also compare distributions at temperature 1")


class AcceptanceNeed(_Strict):
    """How much of the draft must be accepted."""

    kinds: list[str] = Field(default=["chat"], min_length=1, description="prompt sets to draw from")
    requests: int = Field(default=8, ge=3, description="requests of each kind; fewer than 3 have no interval")
    output_tokens: int = Field(default=128, ge=8, description="tokens of each request")
    min_mean: float | None = Field(default=None, gt=1, description="floor of the mean acceptance length, tokens")
    pinned: float | None = Field(default=None, gt=1, description="the mean that this pair is known to have, tokens")
    tolerance: float = Field(default=0.1, gt=0, description="how far from pinned, both ways, tokens")
    min_position_rates: list[float] = Field(default=[], description="floors of the rates at position 1, 2, ...")

    @field_validator("min_position_rates")
    @classmethod
    def _rates(cls, rates: list[float]) -> list[float]:
        if any(not 0 < rate <= 1 for rate in rates) or rates != sorted(rates, reverse=True):
            raise ValueError("rates lie in (0, 1] and fall from position to position")
        return rates


class Eagle3Need(_Strict):
    """What speculation must bring: same answers, acceptance, speed, each judged by itself."""

    template: Template = "{prompt}"
    may_differ: dict[str, str] = Field(
        default={}, description="resolved server argument -> why the arms may differ in it"
    )
    all_reduces_per_verify: int | None = Field(default=None, gt=0, description="for the cost model, if known")
    answers: AnswersNeed = AnswersNeed()
    acceptance: AcceptanceNeed = AcceptanceNeed()
    speed: SpeedNeed | None = Field(default=None, description="absent: speed is not compared")
