"""Made-up evidence."""

from __future__ import annotations

from sglgate.evidence import Evidence

HOSTILE = "<script>alert(1)</script>\"'&../../\u0000\u0007😀; DROP TABLE run; --" + "x" * 10_000


def make_evidence(**fields: object) -> Evidence:
    defaults: dict[str, object] = {
        "at": "2026-01-01T00:00:01.000+00:00", "run": "r", "profile": "cpu", "candidate": "c", "suite": "kv",
        "gate": "pool", "test": "t", "verdict": "PASS", "reason": "", "metric": "KV pool", "value": 4096, "bound": 1,
        "direction": "at_least", "unit": "tokens",
    }  # fmt: skip
    return Evidence.model_validate(defaults | fields)
