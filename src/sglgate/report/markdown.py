"""A run in Markdown: what a CI step shows on its own page."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sglgate.evidence import Evidence
from sglgate.report.board import build_board, run_verdict
from sglgate.run import RunInfo

_LIMIT = 300


def markdown_summary(info: RunInfo, evidence: Sequence[Evidence]) -> str:
    """The verdict, every red gate with its reason, then all gates as a table."""
    board = build_board(evidence)
    verdict = "REPLAY" if info.replay else run_verdict(info, board) if info.finished else "CUT"
    reds = board.reds()
    total = sum(len(row) for row in board.cells.values())
    stack = info.stack.get("packages", {})
    versions = ", ".join(f"{name} {stack[name]}" for name in ("sglang", "torch") if name in stack) or "no stack"
    lines = [f"## {verdict or 'NOTHING JUDGED'}: {total - len(reds)} of {total} gates green", ""]
    lines += [f"Run {cell(info.name)}, profile {cell(info.profile)}, {cell(versions)}.", ""]
    if info.replay:
        lines += [f"**REPLAY** of {cell(info.replay)}: nothing here was measured now, and nothing of it is green.", ""]
    if not info.finished:
        lines += ["**The run did not end**: what it had not judged is not in this table.", ""]
    for candidate, (suite, gate), one in reds:
        name = f"{candidate or 'the machine'} {suite}/{gate}"
        lines.append(f"- **{one.verdict}** {cell(name)}: {cell(one.telling.reason)}")
    rows = []
    for candidate in board.candidates:
        for (suite, gate), one in board.cells[candidate].items():
            e = one.telling
            bound = f"{e.direction.replace('_', ' ')} {e.bound}"
            rows.append(
                (candidate or "the machine", f"{suite}/{gate}", one.verdict, e.metric, f"{e.value} {e.unit}", bound)
            )
    if rows:
        lines += ["", *table(("candidate", "gate", "verdict", "metric", "value", "must be"), rows)]
    return "\n".join(lines) + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table, one string a line."""
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    return lines + [f"| {' | '.join(cell(value) for value in row)} |" for row in rows]


def cell(text: str) -> str:
    """``text`` on one line, with nothing that Markdown or HTML would obey."""
    line = "".join(c if c.isprintable() else " " for c in text)
    line = line if len(line) <= _LIMIT else f"{line[: _LIMIT - 1]}…"
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|!#~])", r"\\\1", line)
