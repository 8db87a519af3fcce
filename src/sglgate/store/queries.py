"""Questions to the store: which runs, which results, what stands now, how one metric went."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, select

from sglgate.errors import MisuseError
from sglgate.evidence import Verdict
from sglgate.store.database import Store
from sglgate.store.schema import GATE, RUN


@dataclass(frozen=True)
class Filter:
    """What to look at; None is no condition. ``gate`` may be ``suite/gate``, ``stack`` a digest or SGLang's version."""

    candidate: str | None = None
    suite: str | None = None
    gate: str | None = None
    metric: str | None = None
    verdict: str | None = None
    stack: str | None = None
    profile: str | None = None
    since: str | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """As SQL.

        Raises:
            MisuseError: no verdict of that name, or no date.
        """
        found: list[ColumnElement[bool]] = []
        suite, gate = self.suite, self.gate
        if gate and "/" in gate:
            suite, _, gate = gate.partition("/")
        for column, value in (
            (GATE.c.candidate, self.candidate),
            (GATE.c.suite, suite),
            (GATE.c.gate, gate),
            (GATE.c.metric, self.metric),
            (RUN.c.profile, self.profile),
        ):
            if value is not None:
                found.append(column == value)
        if self.verdict is not None:
            if self.verdict not in list(Verdict):
                raise MisuseError("no such verdict", key="--verdict", value=self.verdict, expected=", ".join(Verdict))
            found.append(GATE.c.verdict == self.verdict)
        if self.stack is not None:
            found.append((RUN.c.stack == self.stack) | (RUN.c.sglang == self.stack))
        if self.since is not None:
            try:
                datetime.fromisoformat(self.since)
            except ValueError:
                raise MisuseError("not a date", key="--since", value=self.since, expected="2026-11-29") from None
            # Both are UTC in ISO 8601: they compare as text.
            found.append(RUN.c.started >= self.since)
        return found


@dataclass(frozen=True)
class RunRow:
    """One run: of the gate results that a filter let through, how many are green."""

    name: str
    profile: str
    sglang: str
    stack: str
    started: str
    finished: str | None
    verdict: str | None
    green: int
    total: int


@dataclass(frozen=True)
class ResultRow:
    """One gate result."""

    run: str
    started: str
    sglang: str
    stack: str
    profile: str
    candidate: str
    suite: str
    gate: str
    metric: str
    verdict: str
    value: float | None
    low: float | None
    high: float | None
    unit: str
    series: str


_RESULT = (
    RUN.c.name.label("run"), RUN.c.started, RUN.c.sglang, RUN.c.stack, RUN.c.profile,
    *(GATE.c[name] for name in ("candidate", "suite", "gate", "metric", "verdict", "value", "low", "high", "unit")),
    GATE.c.series,
)  # fmt: skip


def runs(store: Store, wanted: Filter, limit: int = 50) -> list[RunRow]:
    """The newest runs that hold a result which ``wanted`` lets through, or hold none at all where nothing is asked."""
    conditions = wanted.conditions()
    green = func.count().filter(GATE.c.verdict == Verdict.PASS.value)
    columns = [RUN.c[name] for name in ("name", "profile", "sglang", "stack", "started", "finished", "verdict")]
    query = (
        select(*columns, green.label("green"), func.count(GATE.c.number).label("total"))
        .select_from(RUN.join(GATE, isouter=True))
        .where(*conditions)
        .group_by(RUN.c.id, *columns)
        .order_by(RUN.c.started.desc(), RUN.c.name)
        .limit(limit)
    )
    with store.reading() as connection:
        return [RunRow(**row._mapping) for row in connection.execute(query)]


def results(store: Store, wanted: Filter, limit: int | None = 200) -> list[ResultRow]:
    """Gate results, newest run first."""
    query = (
        select(*_RESULT)
        .select_from(GATE.join(RUN))
        .where(*wanted.conditions())
        .order_by(RUN.c.started.desc(), RUN.c.name, GATE.c.number)
        .limit(limit)
    )
    return _rows(store, query)


def board(store: Store, wanted: Filter) -> list[ResultRow]:
    """The last result of every metric of every gate of every candidate."""
    rank = func.row_number().over(partition_by=GATE.c.series, order_by=(RUN.c.started.desc(), GATE.c.number.desc()))
    ranked = (
        select(GATE.c.run_id, GATE.c.number, rank.label("rank"))
        .select_from(GATE.join(RUN))
        .where(*wanted.conditions())
        .subquery()
    )
    query = (
        select(*_RESULT)
        .select_from(
            GATE.join(RUN).join(
                ranked, and_(ranked.c.run_id == GATE.c.run_id, ranked.c.number == GATE.c.number, ranked.c.rank == 1)
            )
        )
        .order_by(RUN.c.profile, GATE.c.candidate, GATE.c.suite, GATE.c.gate, GATE.c.metric)
    )
    return _rows(store, query)


def trend(store: Store, wanted: Filter) -> dict[str, list[ResultRow]]:
    """Each metric that ``wanted`` lets through, over time, oldest first; results without a number are left out."""
    query = (
        select(*_RESULT)
        .select_from(GATE.join(RUN))
        .where(*wanted.conditions(), GATE.c.value.is_not(None))
        .order_by(RUN.c.started, GATE.c.number)
    )
    found: dict[str, list[ResultRow]] = {}
    for row in _rows(store, query):
        found.setdefault(row.series, []).append(row)
    return found


def records(store: Store, run: str) -> list[dict[str, Any]]:
    """A run's evidence as it was written.

    Raises:
        MisuseError: no such run in the store.
    """
    with store.reading() as connection:
        known = connection.execute(select(RUN.c.id).where(RUN.c.name == run)).scalar()
        if known is None:
            raise MisuseError("no such run in the store", key="run", value=run, expected="see: sglgate history list")
        query = select(GATE.c.record).where(GATE.c.run_id == known).order_by(GATE.c.number)
        return [json.loads(record) for record in connection.execute(query).scalars()]


def _rows(store: Store, query: Select[Any]) -> list[ResultRow]:
    with store.reading() as connection:
        return [ResultRow(*row) for row in connection.execute(query)]
