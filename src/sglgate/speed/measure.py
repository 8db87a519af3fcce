"""One block: both arms launched anew, the same load on each, and what the machine did meanwhile."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any, Final

from sglgate.config import Candidate
from sglgate.decision import Block, Fact, Order, order_of
from sglgate.errors import UnfitError
from sglgate.evidence import Verdict
from sglgate.launch import Server
from sglgate.launch.client import Client, ServerError
from sglgate.launch.pool import ServerPool
from sglgate.load import LoadResult, PromptSet, run_load
from sglgate.load.results import Metrics
from sglgate.speed.cells import Cell
from sglgate.telemetry import Telemetry

_FLUSH_DEADLINE_S: Final = 10.0


@dataclass(frozen=True)
class ArmRun:
    """One launch under load.

    Args:
        candidate: its name.
        log: of its server.
        info: what the server resolved.
        facts: for the void rules.
        results: by cell, one a turn.
    """

    candidate: str
    log: Path
    info: Mapping[str, Any]
    facts: Mapping[str, Fact]
    results: Mapping[str, Sequence[LoadResult]]

    def metrics(self, cell: str) -> list[Metrics]:
        """Of each turn that has any."""
        return [result.metrics for result in self.results[cell] if result.metrics]

    def tok_per_s(self, cell: str) -> float | None:
        """Tokens per second in all, the geometric mean of its turns; None where a request failed in one of them."""
        rates = [result.metrics.tok_per_s if result.usable and result.metrics else 0.0 for result in self.results[cell]]
        return geometric_mean(rates) if all(rates) else None


@dataclass(frozen=True)
class BlockRun:
    """Both launches of one block."""

    order: Order
    baseline: ArmRun
    candidate: ArmRun

    def blocks(self) -> dict[str, Block]:
        """One block a cell: tokens per second of both arms."""
        return {
            cell: Block(
                self.baseline.tok_per_s(cell),
                self.candidate.tok_per_s(cell),
                self.order,
                self.baseline.facts,
                self.candidate.facts,
            )
            for cell in self.baseline.results
        }


def run_block(
    pool: ServerPool,
    telemetry: Telemetry,
    baseline: Candidate,
    candidate: Candidate,
    order: Order,
    cells: Sequence[Cell],
    prompts: Mapping[str, PromptSet],
    turns: int = 0,
) -> BlockRun:
    """Launch both arms in the given order: one after the other, never together, unless there are ``turns``.

    With turns both stand at once and answer by turns, one held still while the other is measured, so that a machine
    whose pace changes within minutes moves both alike. Their number is even: each arm goes first as often as the other.

    Raises:
        LaunchError: an arm did not come up.
        NotExercisedError: there are turns, and a server that cannot be held still.
        UnfitError: the client, or other work on this machine, was the limit.
    """
    # For A/A both arms are one candidate: by position, then, not by name.
    arms = (baseline, candidate) if order == "AB" else (candidate, baseline)
    if turns:
        runs = _run_together(pool, telemetry, arms, cells, prompts, turns)
    else:
        runs = [run_arm(pool, telemetry, arm, cells, prompts) for arm in arms]
    return BlockRun(order, *(runs if order == "AB" else reversed(runs)))


def _run_together(
    pool: ServerPool,
    telemetry: Telemetry,
    arms: Sequence[Candidate],
    cells: Sequence[Cell],
    prompts: Mapping[str, PromptSet],
    turns: int,
) -> list[ArmRun]:
    results: list[dict[str, list[LoadResult]]] = [{cell.name: [] for cell in cells} for _ in arms]
    with pool.together(*arms) as servers:
        with telemetry.window() as window:
            for turn in range(turns):
                for which in (0, 1) if order_of(turn) == "AB" else (1, 0):
                    servers[which].thaw()
                    for cell in cells:
                        flush(servers[which].client)
                        results[which][cell.name].append(measure_cell(servers[which], cell, prompts))
                    servers[which].freeze()
        facts = window.facts()
    return [
        ArmRun(arm.name, server.log, server.info, facts, found)
        for arm, server, found in zip(arms, servers, results, strict=True)
    ]


def run_arm(
    pool: ServerPool,
    telemetry: Telemetry,
    candidate: Candidate,
    cells: Sequence[Cell],
    prompts: Mapping[str, PromptSet],
) -> ArmRun:
    """One fresh launch, each cell measured on it with an empty prefix cache.

    Raises:
        LaunchError: it did not come up.
        UnfitError: the client was the limit in a cell: its figures are not the server's.
    """
    server = pool.fresh(candidate)
    results = {}
    with telemetry.window() as window:
        for cell in cells:
            flush(server.client)
            results[cell.name] = [measure_cell(server, cell, prompts)]
    return ArmRun(candidate.name, server.log, server.info, window.facts(), results)


def measure_cell(server: Server, cell: Cell, prompts: Mapping[str, PromptSet]) -> LoadResult:
    """One cell on a running server; a result that is UNFIT is no result."""
    result = run_load(cell.plan(server.client.base_url, prompts))
    if result.verdict is Verdict.UNFIT:
        raise UnfitError(f"{cell.name} on {server.candidate.name}: {result.reason} (log {server.log})")
    return result


def flush(client: Client) -> None:
    """Empty the prefix cache. SGLang refuses while its scheduler still holds the last request, for a moment."""
    end = time.monotonic() + _FLUSH_DEADLINE_S
    while True:
        try:
            return client.flush_cache()
        except ServerError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
