"""What a verdict rests on: the facts of the log and the lines that show it."""

from __future__ import annotations

import re
from typing import Any, Final

from sglgate.diagnosis.decide import Verdict
from sglgate.diagnosis.incident import Incident
from sglgate.diagnosis.model import EvidenceLine
from sglgate.logs import StartupRecord
from sglgate.redact import redact

_WIDTH: Final = 400


def facts(verdict: Verdict, incident: Incident, record: StartupRecord, launches: int) -> dict[str, Any]:
    """What a reader may want beside the cause; only what the log says."""
    found: dict[str, Any] = {"lines": record.lines}
    arguments = record.server_args or {}
    for key in (
        "model_path",
        "tp_size",
        "mem_fraction_static",
        "speculative_algorithm",
        "attention_backend",
        "quantization",
    ):
        if arguments.get(key) is not None:
            found[key] = redact(str(arguments[key])) if isinstance(arguments[key], str) else arguments[key]
    if record.sglang_version:
        found["sglang_version"] = record.sglang_version
    if verdict.hit is not None:
        found["signature"] = verdict.hit.signature.name
        # Nobody knows which rank printed an unstamped line that is no exception (the kernel's, NCCL's).
        if verdict.hit.rank and (verdict.hit.exception or verdict.hit.stamped):
            found["rank"] = verdict.hit.rank
        found.update({key: _number_or_text(value) for key, value in verdict.hit.facts.items()})
        also = sorted({hit.rank for hit in incident.hits if hit.cause == verdict.cause and hit.rank})
        if len(also) > 1:
            found["ranks"] = also
    elif verdict.failure is not None:
        found["exception"] = verdict.failure.type
        if verdict.failure.rank:
            found["rank"] = verdict.failure.rank
    if verdict.subject is not None:
        found["signature"], found["weight"] = f"{verdict.cause}.subject", verdict.subject.score
    if launches > 1:
        found["launches_in_log"] = launches
    if record.unknown_formats:
        found["unknown_formats"] = [
            {"line": item.line, "format": item.kind, "text": redact(item.text[:200])}
            for item in record.unknown_formats[:5]
        ]
    if record.summaries:
        found["max_total_num_tokens"] = record.summaries[0].max_total_num_tokens
    return found


def _number_or_text(value: str) -> int | float | str:
    if re.fullmatch(r"-?\d{1,18}", value):
        return int(value)
    return float(value) if re.fullmatch(r"-?\d{1,18}\.\d{1,18}", value) else redact(value)


def evidence(verdict: Verdict, incident: Incident, record: StartupRecord) -> tuple[EvidenceLine, ...]:
    """At most six lines, the deciding one first; never with a secret."""
    lines: list[tuple[int, str]] = []
    if verdict.hit is not None:
        lines.append((verdict.hit.line, verdict.hit.text))
        lines += [(hit.line, hit.text) for hit in incident.hits if hit.cause == verdict.cause][:3]
    if verdict.subject is not None:
        lines += verdict.subject.lines[:4]
    if verdict.failure is not None:
        text = f"{verdict.failure.type}: {verdict.failure.message}" if verdict.failure.message else verdict.failure.type
        lines.append((verdict.failure.line, text))
    lines += [(hit.line, hit.text) for hit in verdict.hints if hit.cause == verdict.cause][:1]
    if verdict.hit is None and verdict.cause != "none":
        lines += [(line, text) for line, _, text in incident.deadly[:1]]
    if verdict.hit is None and verdict.outcome in ("hung", "cut") and incident.last is not None:
        lines.append(incident.last)
    if verdict.outcome == "ready" and record.ready_line is not None:
        lines.append((record.ready_line, "The server is fired up and ready to roll!"))
    unique = dict(reversed(lines))
    ordered = list(dict.fromkeys(line for line, _ in lines))
    return tuple(EvidenceLine(line, redact(unique[line])[:_WIDTH]) for line in ordered[:6])
