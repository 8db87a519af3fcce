"""Pinned baselines: set by a person with a reason, never moved by anything else."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func, insert, select

from sglgate.errors import MisuseError, SglgateError
from sglgate.evidence import Verdict
from sglgate.run import now
from sglgate.store.database import Store
from sglgate.store.queries import Filter
from sglgate.store.schema import GATE, PIN, RUN, series_key


class NoBaselineError(SglgateError):
    """A gate asked for a baseline that nobody pinned: red, never a pass."""


@dataclass(frozen=True)
class Pin:
    """One baseline with its story; ``before`` is the value that it replaced."""

    at: str
    who: str
    why: str
    run: str
    profile: str
    candidate: str
    suite: str
    gate: str
    metric: str
    unit: str
    value: float
    low: float | None
    high: float | None
    before: float | None


_FIELDS = tuple(Pin.__dataclass_fields__)


def pin(store: Store, run: str, wanted: Filter, *, who: str, why: str) -> list[Pin]:
    """Pin what a run measured; every metric that ``wanted`` lets through, or none.

    Raises:
        MisuseError: nobody or no reason is named, nothing matches, or a match is red, not a number, or measured twice.
    """
    for key, value in (("--who", who), ("--why", why)):
        if not value.strip():
            raise MisuseError("a baseline needs one", key=key, expected="a name, a sentence")
    fields = [GATE.c[name] for name in ("candidate", "suite", "gate", "metric", "unit", "value", "low", "high")]
    query = select(*fields, GATE.c.series, GATE.c.verdict, RUN.c.profile).select_from(GATE.join(RUN))
    pins: dict[str, Pin] = {}
    with store.writing() as connection:
        for row in connection.execute(query.where(RUN.c.name == run, *wanted.conditions()).order_by(GATE.c.number)):
            name = f"{row.candidate}: {row.suite}/{row.gate}: {row.metric}"
            if row.verdict != Verdict.PASS or row.value is None:
                raise MisuseError("only a green number can be a baseline", key=name, value=row.verdict)
            if row.series in pins:
                raise MisuseError("measured more than once in this run", key=name, expected="narrow it by --metric")
            before = select(PIN.c.value).where(PIN.c.series == row.series).order_by(PIN.c.id.desc()).limit(1)
            pins[row.series] = Pin(
                at=now(), who=who, why=why, run=run, profile=row.profile, candidate=row.candidate, suite=row.suite,
                gate=row.gate, metric=row.metric, unit=row.unit, value=row.value, low=row.low, high=row.high,
                before=connection.execute(before).scalar(),
            )  # fmt: skip
        if not pins:
            raise MisuseError(
                "no such result in the store", key="run", value=run, expected="see: sglgate history gates"
            )
        connection.execute(insert(PIN), [{"series": series, **vars(item)} for series, item in pins.items()])
    return list(pins.values())


def pins(store: Store, profile: str | None = None, candidate: str | None = None) -> list[Pin]:
    """The baselines in force."""
    newest = select(func.max(PIN.c.id)).group_by(PIN.c.series)
    query = select(*(PIN.c[name] for name in _FIELDS)).where(PIN.c.id.in_(newest)).order_by(PIN.c.id)
    if profile is not None:
        query = query.where(PIN.c.profile == profile)
    if candidate is not None:
        query = query.where(PIN.c.candidate == candidate)
    with store.reading() as connection:
        return [Pin(*row) for row in connection.execute(query)]


def story(store: Store, *, profile: str, candidate: str, suite: str, gate: str, metric: str) -> list[Pin]:
    """Every pin that this metric has had, the one in force last.

    Raises:
        NoBaselineError: it has none; whoever asks is red.
    """
    series = series_key(profile, candidate, suite, gate, metric)
    query = select(*(PIN.c[name] for name in _FIELDS)).where(PIN.c.series == series).order_by(PIN.c.id)
    with store.reading() as connection:
        found = [Pin(*row) for row in connection.execute(query)]
    if not found:
        raise NoBaselineError(
            f"no baseline is pinned for {candidate} {suite}/{gate} {metric!r} on {profile}: "
            "pin one with sglgate baseline pin RUN --who NAME --why TEXT"
        )
    return found


def baseline(store: Store, *, profile: str, candidate: str, suite: str, gate: str, metric: str) -> Pin:
    """The baseline in force.

    Raises:
        NoBaselineError: there is none; whoever asks is red.
    """
    return story(store, profile=profile, candidate=candidate, suite=suite, gate=gate, metric=metric)[-1]
