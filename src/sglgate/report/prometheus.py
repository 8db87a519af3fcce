"""A run as OpenMetrics text, which Prometheus and its pushgateway read: one gauge a fact, labels say of what.

Format: OpenMetrics 1.0. Every sample of a family stands together, families end with ``# EOF``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from sglgate.errors import MisuseError
from sglgate.evidence import Evidence, Verdict
from sglgate.report.board import build_board, run_verdict
from sglgate.run import RunInfo

_LABEL_LIMIT = 200


def openmetrics(info: RunInfo, evidence: Sequence[Evidence]) -> str:
    """The whole exposition; the same evidence gives the same bytes.

    Raises:
        MisuseError: the run is a replay: a time series is of machines.
    """
    if info.replay:
        raise MisuseError("a replay measures nothing", key="--format", value="prometheus", expected="html, md or junit")
    common = {
        "profile": info.profile,
        "stack": str(info.stack.get("digest", "")),
        "sglang": str(info.stack.get("packages", {}).get("sglang", "")),
    }
    board = build_board(evidence)
    gates = [
        (common | {"candidate": candidate, "suite": suite, "gate": gate}, cell)
        for candidate in board.candidates
        for (suite, gate), cell in board.cells[candidate].items()
    ]
    values = _values(common, evidence)
    families: list[tuple[str, str, list[tuple[Mapping[str, str], float]]]] = [
        (
            "sglgate_gate_verdict",
            "1 for the verdict that a gate has, 0 for the others",
            [
                (labels | {"verdict": str(verdict)}, float(cell.verdict is verdict))
                for labels, cell in gates
                for verdict in Verdict
            ],
        ),
        ("sglgate_gate_value", "What a gate measured, in the unit that its label names", values),
        ("sglgate_run_finished", "1 if the run ended, 0 if it was cut", [(common, float(info.finished is not None))]),
        (
            "sglgate_run_green",
            "1 if the run ended and every gate of it is green",
            [(common, float(run_verdict(info, board) is Verdict.PASS))],
        ),
        ("sglgate_run_started_timestamp_seconds", "When the run started", [(common, _seconds(info.started))]),
        (
            "sglgate_launch_ready_seconds",
            "From the start of a server's process to its first answer",
            [
                (common | {"candidate": str(launch["candidate"]), "launch": str(number)}, launch["phase_s"]["total"])
                for number, launch in enumerate(info.launches, 1)
                # A launch that failed, and one that was only attached to, never became ready.
                if "total" in launch.get("phase_s", {})
            ],
        ),
    ]
    lines = [line for name, text, samples in families for line in _family(name, text, samples)]
    return "\n".join([*lines, "# EOF"]) + "\n"


def _values(common: Mapping[str, str], evidence: Sequence[Evidence]) -> list[tuple[Mapping[str, str], float]]:
    # One sample a label set: a gate that looked twice shows what it saw last.
    found: dict[tuple[tuple[str, str], ...], float] = {}
    for e in evidence:
        if isinstance(e.value, int | float):
            labels = {"candidate": e.candidate, "suite": e.suite, "gate": e.gate, "metric": e.metric, "unit": e.unit}
            found[tuple((dict(common) | labels).items())] = float(e.value)
    return [(dict(labels), value) for labels, value in found.items()]


def _family(name: str, text: str, samples: Sequence[tuple[Mapping[str, str], float]]) -> Iterator[str]:
    yield f"# TYPE {name} gauge"
    yield f"# HELP {name} {text}"
    for labels, value in samples:
        pairs = ",".join(f'{key}="{_label(text)}"' for key, text in labels.items())
        yield f"{name}{{{pairs}}} {_number(value)}"


def _label(text: str) -> str:
    """Escaped as the format asks; a control character would end the line or the reader."""
    shown = "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)
    if len(shown) > _LABEL_LIMIT:
        # Two label sets that were cut to one would be one sample given twice: the whole exposition is then refused.
        shown = f"{shown[:_LABEL_LIMIT]}…{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(str(value), repr(value))


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()
