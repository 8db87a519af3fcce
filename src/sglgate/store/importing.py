"""A run's folder into the store: whole or not at all, and as often as one likes."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, func, insert, select

from sglgate.errors import MisuseError
from sglgate.evidence import Evidence
from sglgate.report.board import build_board, run_verdict
from sglgate.run import RunInfo, read_evidence, read_run
from sglgate.store.aa import add_aa, records_of
from sglgate.store.database import Store, default_store
from sglgate.store.schema import GATE, LAUNCH, RUN, SAMPLE, series_key

#: A record's detail may hold whole tables; beyond this the record itself still has them all.
SAMPLES_A_RECORD: Final = 2000


class Outcome(StrEnum):
    """What an import did."""

    ADDED = "added"
    UNCHANGED = "already there"
    REPLACED = "grown since it was imported"


def remember(folder: Path) -> str | None:
    """Import a run that has just ended into the default store; why that failed, or None.

    A store that cannot be written must never turn a verdict.
    """
    try:
        with Store(default_store(folder.parent), create=True) as store:
            import_run(store, folder)
    except Exception as error:  # whatever it is, the run is judged already
        return f"not in the history: {error}"
    return None


def import_run(store: Store, folder: Path) -> Outcome:
    """Import one run; a second time changes nothing, a run that has grown since is replaced.

    Raises:
        MisuseError: not a run's folder, a replay, another run of that name is in the store, or it holds more of it.
        StoreError: the store cannot be written; nothing of the run is in it then.
    """
    info, evidence = read_run(folder), read_evidence(folder)
    if info.replay:
        raise MisuseError("a replay, which measured nothing", file=folder, expected="a run on a machine")
    content = _digest(info, evidence)
    with store.writing() as connection:
        known = connection.execute(select(RUN).where(RUN.c.name == info.name)).one_or_none()
        if known is not None:
            if known.content == content:
                return Outcome.UNCHANGED
            _need_growth(connection, known, info, evidence, folder)
            for table in (SAMPLE, GATE, LAUNCH):
                connection.execute(delete(table).where(table.c.run_id == known.id))
            connection.execute(delete(RUN).where(RUN.c.id == known.id))
        _insert(connection, info, evidence, content)
    return Outcome.ADDED if known is None else Outcome.REPLACED


def node_digest(node: dict[str, Any]) -> str:
    """12 hex digits for a machine as ``run.json`` describes it: noise belongs to one machine."""
    return hashlib.sha256(json.dumps(node, sort_keys=True).encode()).hexdigest()[:12]


def _digest(info: RunInfo, evidence: Sequence[Evidence]) -> str:
    parts = [info.model_dump_json(), *(record.model_dump_json() for record in evidence)]
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _need_growth(
    connection: Connection, known: Row[Any], info: RunInfo, evidence: Sequence[Evidence], folder: Path
) -> None:
    if known.started != info.started:
        raise MisuseError(
            f"another run of this name, started {known.started}, is in the store", file=folder, value=info.name
        )
    gates = connection.execute(select(func.count()).where(GATE.c.run_id == known.id)).scalar_one()
    if gates > len(evidence) or (known.finished and not info.finished):
        raise MisuseError(
            f"the store holds more of this run ({gates} records) than the folder ({len(evidence)})",
            file=folder,
            expected="the folder as the run left it",
        )


def _insert(connection: Connection, info: RunInfo, evidence: Sequence[Evidence], content: str) -> None:
    board = build_board(evidence)
    run_id: int = connection.execute(
        insert(RUN)
        .values(
            name=info.name,
            content=content,
            profile=info.profile,
            stack=info.stack.get("digest", ""),
            sglang=info.stack.get("packages", {}).get("sglang", ""),
            node=node_digest(info.node),
            started=info.started,
            finished=info.finished,
            exit_code=info.exit_code,
            verdict=run_verdict(info, board),
            description=json.dumps(info.model_dump(mode="json", exclude={"launches"})),
        )
        .returning(RUN.c.id)
    ).scalar_one()
    launches = [
        {
            "run_id": run_id,
            "number": number,
            "candidate": str(launch.get("candidate", "")),
            "ready_s": launch.get("phase_s", {}).get("total"),
            "record": json.dumps(launch),
        }
        for number, launch in enumerate(info.launches, 1)
    ]
    gates = [_gate(run_id, number, record) for number, record in enumerate(evidence, 1)]
    samples = [
        {"run_id": run_id, "source": source, "number": number, "position": position, "name": name, "value": value}
        for source, number, data in (
            *(("launch", number, launch.get("phase_s", {})) for number, launch in enumerate(info.launches, 1)),
            *(("gate", number, record.detail) for number, record in enumerate(evidence, 1)),
        )
        for position, (name, value) in zip(range(SAMPLES_A_RECORD), _numbers(data), strict=False)
    ]
    for table, rows in ((LAUNCH, launches), (GATE, gates), (SAMPLE, samples)):
        if rows:
            connection.execute(insert(table), rows)
    add_aa(connection, records_of(evidence), node_digest(info.node))


def _gate(run_id: int, number: int, record: Evidence) -> dict[str, Any]:
    low, high = record.interval or (None, None)
    return {
        "run_id": run_id,
        "number": number,
        "series": series_key(record.profile, record.candidate, record.suite, record.gate, record.metric),
        "value": _finite(record.value),
        # An unbounded side is no number that a database could compare: the record has it.
        "low": _finite(low),
        "high": _finite(high),
        "record": record.model_dump_json(),
        **{name: getattr(record, name) for name in ("at", "candidate", "suite", "gate", "metric", "unit")},
        "verdict": str(record.verdict),
    }


def _finite(value: object) -> float | None:
    if not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _numbers(data: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Every finite number inside JSON data with its path; booleans count as 0 and 1."""
    if isinstance(data, dict):
        for key, item in data.items():
            yield from _numbers(item, f"{path}.{key}" if path else str(key))
    elif isinstance(data, list | tuple):
        for index, item in enumerate(data):
            yield from _numbers(item, f"{path}[{index}]")
    elif (value := _finite(data)) is not None:
        yield path, value
