"""One block: both arms launched anew, the same load on each cell, and what the machine did meanwhile."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sglgate.config import Candidate
from sglgate.decision import Block, Fact, Order
from sglgate.eagle3.cells import Cell
from sglgate.errors import UnfitError
from sglgate.evidence import Verdict
from sglgate.launch import Server
from sglgate.launch.client import Client, ServerError
from sglgate.launch.pool import ServerPool
from sglgate.load import LoadResult, PromptSet, run_load
from sglgate.telemetry import Telemetry

_FLUSH_DEADLINE_S: Final = 10.0


@dataclass(frozen=True)
class ArmRun:
    """One launch under load. ``info`` is what the server resolved; ``facts`` are for the void rules."""

    candidate: str
    log: Path
    info: Mapping[str, Any]
    facts: Mapping[str, Fact]
    results: Mapping[str, LoadResult]

    def tok_per_s(self, cell: str) -> float | None:
        """Tokens per second in all; None where a request failed, so that nothing was measured."""
        result = self.results[cell]
        return result.metrics.tok_per_s if result.usable and result.metrics else None


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
) -> BlockRun:
    """Launch both arms in the given order, one after the other, never together.

    Raises:
        LaunchError: an arm did not come up.
        UnfitError: the client, or other work on this machine, was the limit.
    """
    # For A/A both arms are one candidate: by position, then, not by name.
    first, second = (baseline, candidate) if order == "AB" else (candidate, baseline)
    runs = [run_arm(pool, telemetry, arm, cells, prompts) for arm in (first, second)]
    return BlockRun(order, *(runs if order == "AB" else reversed(runs)))


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
            results[cell.name] = measure_cell(server, cell, prompts)
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
