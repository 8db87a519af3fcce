"""The board for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from sglgate.evidence import Evidence, Verdict
from sglgate.report.board import MACHINE, build_board
from sglgate.run import RunInfo

_MARKS = {
    Verdict.PASS: "pass",
    Verdict.FAIL: "FAIL",
    Verdict.INCONCLUSIVE: "INCONCLUSIVE",
    Verdict.NOT_EXERCISED: "NOT_EXERCISED",
    Verdict.UNFIT: "UNFIT",
}


def summary_lines(info: RunInfo, evidence: Sequence[Evidence]) -> list[str]:
    """One line a gate and candidate, the figure that decided it, and the reason where it is red."""
    board = build_board(evidence)
    stack = info.stack.get("packages", {})
    versions = ", ".join(f"{name} {stack[name]}" for name in ("sglang", "torch") if name in stack) or "no stack"
    lines = [f"run {info.name}: profile {info.profile}, {versions}", *history_lines(info), ""]
    if info.replay:
        lines[1:1] = [f"REPLAY of {info.replay}", "REPLAY: nothing here was measured now, and nothing of it is green"]
    width = max((len(f"{suite}/{gate}") for suite, gate in board.gates), default=0)
    for candidate in board.candidates:
        lines.append(candidate if candidate != MACHINE else "(the machine)")
        for (suite, gate), cell in board.cells[candidate].items():
            e = cell.telling
            figure = f"{_short(e.value)} {e.unit}".strip() if e.value is not None else ""
            lines.append(
                f"  {suite + '/' + gate:<{width}}  {_MARKS[cell.verdict]:<13} {e.metric}: {figure}".rstrip(": ")
            )
            if cell.verdict is not Verdict.PASS:
                lines += [f"      {line}" for line in e.reason.splitlines()]
    reds = board.reds()
    total = sum(len(row) for row in board.cells.values())
    lines += ["", f"{total - len(reds)} of {total} gates green" if total else "nothing was judged: not green"]
    if info.replay:
        lines[-1] = f"REPLAY: {total - len(reds)} of {total} gates pass on the recorded data; a replay is never green"
    elif info.finished and total and not reds and info.exit_code != 0:
        lines.append(f"ended with exit code {info.exit_code}: not all was judged, not green")
    return lines


def history_lines(info: RunInfo) -> list[str]:
    """What happened to the run as a whole: taken up again, candidates left out, speed held against another release."""
    resumed = [
        f"taken up again {entry['at'][:16].replace('T', ' ')} UTC: {entry['judged_before']} tests judged before"
        for entry in info.resumed
    ]
    left_out = [f"left out: {name}, {why}" for name, why in info.left_out.items()]
    return [*resumed, *left_out, *_against(info)]


def _against(info: RunInfo) -> list[str]:
    if not info.against:
        return []
    release = f"sglang {info.against.get('packages', {}).get('sglang', '?')}"
    asked = [name for name, candidate in info.candidates.items() if candidate.get("expect", {}).get("release")]
    names = ", ".join(asked) or "no candidate, as none of this run has [expect.release]"
    return [f"held against the speed of {release}: {names}"]


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
