"""A cell is one prompt kind at one concurrency, under the load that every arm gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

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


def prompts_of(folder: Path, kinds: Iterable[str]) -> dict[str, PromptSet]:
    """The prompt sets of these kinds, each checked against its digest."""
    return {kind: load_prompts(folder, kind) for kind in dict.fromkeys(kinds)}
