"""A cell is one prompt kind at one concurrency; each has its own bound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sglgate.config.eagle3 import Eagle3Need, SpeedNeed
from sglgate.decision import Rule, VoidRule, spend
from sglgate.decision.rule import LOOKS
from sglgate.load import ClientLimits, ClosedLoop, LoadPlan, PromptSet, load_prompts


@dataclass(frozen=True)
class Cell:
    """``kind`` at ``concurrency``, under the load that every arm gets."""

    kind: str
    concurrency: int
    requests: int
    output_tokens: int
    template: str
    limits: ClientLimits = field(default_factory=ClientLimits)

    @property
    def name(self) -> str:
        """As it stands in a candidate: ``chat@4``."""
        return f"{self.kind}@{self.concurrency}"

    def plan(self, base_url: str, prompts: Mapping[str, PromptSet]) -> LoadPlan:
        """The load on one server."""
        return LoadPlan(
            base_url=base_url,
            prompts=prompts[self.kind],
            # At least as many requests as users, or the concurrency is never there.
            arrivals=ClosedLoop(self.concurrency, max(self.requests, self.concurrency)),
            output_tokens=self.output_tokens,
            template=self.template,
            limits=self.limits,
        )


def cells_of(need: Eagle3Need) -> tuple[Cell, ...]:
    """The cells that a candidate bounds, in the order of its file; none where it bounds no speed."""
    if need.speed is None:
        return ()
    found = []
    for name in need.speed.bounds:
        kind, _, users = name.partition("@")
        found.append(Cell(kind, int(users), need.speed.requests, need.speed.output_tokens, need.template))
    return tuple(found)


def prompts_of(folder: Path, kinds: Iterable[str]) -> dict[str, PromptSet]:
    """The prompt sets of these kinds, each checked against its digest."""
    return {kind: load_prompts(folder, kind) for kind in dict.fromkeys(kinds)}


def rules_of(need: SpeedNeed, void_rules: Iterable[VoidRule]) -> dict[str, Rule]:
    """One rule a cell, declared before the first launch."""
    looks = tuple(need.looks)
    settings: dict[str, object] = {"looks": looks, "void_rules": tuple(void_rules)}
    if looks != LOOKS:
        # Later looks spend more, as the default schedule has it: an early verdict must be clearer.
        settings["alphas"] = spend(looks, range(1, len(looks) + 1))
    return {
        cell: Rule.at_least(bound, design_effect=need.design_effect, **settings) for cell, bound in need.bounds.items()
    }
