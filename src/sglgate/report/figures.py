"""The figures of a run: speed by concurrency, acceptance by position, all-reduce time by size; from gates' details."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from sglgate.allreduce.sizes import show_bytes
from sglgate.evidence import Evidence, Number, number
from sglgate.report.pictures.chart import Point, Scale, Series, chart, doublings

_Detail = TypeVar("_Detail", bound=BaseModel)


@dataclass(frozen=True)
class Figure:
    """A picture with its title, a sentence, and the numbers that it was drawn from."""

    title: str
    svg: str
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


def figures(evidence: Sequence[Evidence]) -> list[Figure]:
    """All that the evidence allows; a detail of another shape than the gates leave draws nothing."""
    found: list[Figure] = []
    for candidate in dict.fromkeys(e.candidate for e in evidence):
        own = [e for e in evidence if e.candidate == candidate]
        found += [*_speed(candidate, own), *_acceptance(candidate, own), *_reduce_time(candidate, own)]
    return [figure for figure in found if figure.svg]


class Lenient(BaseModel):
    """The part of a gate's detail that a picture needs; whatever else is in it does not matter."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _Block(Lenient):
    plain_tok_per_s: Number | None
    speculative_tok_per_s: Number | None


class _Cell(Lenient):
    kind: str
    concurrency: int
    blocks: tuple[_Block, ...]


class _Acceptance(Lenient):
    positions: tuple[Number, ...]
    position_intervals: tuple[tuple[Number, Number], ...] = ()


class _Row(Lenient):
    bucket: str
    size_bytes: int
    candidate_us: Number
    baseline_us: Number
    ratio: Number | None


class _ReduceTime(Lenient):
    path: str
    baseline: str
    ranks: int
    limit_bytes: int | None
    rows: tuple[_Row, ...]


def read(model: type[_Detail], e: Evidence) -> _Detail | None:
    """The detail of a record as ``model``; None where it is something else."""
    try:
        return model.model_validate(e.detail)
    except ValidationError:
        return None


def _of(
    evidence: Iterable[Evidence], suite: str, gate: str, model: type[_Detail]
) -> Iterator[tuple[Evidence, _Detail]]:
    for e in evidence:
        if (e.suite, e.gate) == (suite, gate) and (detail := read(model, e)) is not None:
            yield e, detail


def _speed(candidate: str, evidence: Sequence[Evidence]) -> list[Figure]:
    found = _of(evidence, "eagle3", "speed_against_baseline", _Cell)
    cells = sorted(found, key=lambda one: (one[1].kind, one[1].concurrency))
    ticks = sorted({float(cell.concurrency) for _, cell in cells if cell.concurrency > 0})
    users = Scale("requests at once", is_log=True, ticks=tuple(ticks))
    ratios, rates = [], []
    bounds: dict[tuple[Point, ...], list[str]] = {}
    for kind in dict.fromkeys(cell.kind for _, cell in cells):
        own = [(e, cell) for e, cell in cells if cell.kind == kind]
        ratios.append(Series(kind, _points((cell.concurrency, e.value, e.interval) for e, cell in own)))
        bounds.setdefault(_points((cell.concurrency, e.bound, None) for e, cell in own), []).append(kind)
        for arm in ("speculative", "plain"):
            means = ((cell.concurrency, _mean(cell, arm), None) for _, cell in own)
            rates.append(Series(f"{kind}, {arm}", _points(means)))
    ratios += [Series(f"bound of {', '.join(kinds)}", points, is_bound=True) for points, kinds in bounds.items()]
    return [
        Figure(
            f"{candidate}: tokens per second by concurrency",
            chart(
                f"tokens per second of {candidate} by concurrency",
                users,
                Scale("tokens per second", is_log=True),
                rates,
            ),
            "Geometric mean over the blocks, each a launch of either arm.",
            ("cell", "plain tok/s", "speculative tok/s", "blocks"),
            tuple(
                (_name(cell), _mean(cell, "plain"), _mean(cell, "speculative"), len(cell.blocks)) for _, cell in cells
            ),
        ),
        Figure(
            f"{candidate}: speculative over plain",
            chart(f"speed ratio of {candidate} by concurrency", users, Scale("speculative / plain"), ratios),
            "The upright through each point is its interval; its lower end must clear the bound.",
            ("cell", "ratio", "interval", "bound", "verdict"),
            tuple((_name(cell), e.value, e.interval, e.bound, e.verdict) for e, cell in cells),
        ),
    ]


def _points(found: Iterable[tuple[float, object, tuple[float, float] | None]]) -> tuple[Point, ...]:
    return tuple(Point(x, y, *(ends or (None, None))) for x, value, ends in found if (y := number(value)) is not None)


def _name(cell: _Cell) -> str:
    return f"{cell.kind}@{cell.concurrency}"


def _mean(cell: _Cell, arm: str) -> float | None:
    rates = [number(getattr(block, f"{arm}_tok_per_s")) for block in cell.blocks]
    found = [rate for rate in rates if rate is not None and rate > 0]
    return geometric_mean(found) if found else None


def _acceptance(candidate: str, evidence: Sequence[Evidence]) -> list[Figure]:
    floors = [number(e.bound) for e in evidence if (e.suite, e.gate) == ("eagle3", "positions_above_floors")]
    return [
        _acceptance_figure(candidate, seen, floors)
        for _, seen in _of(evidence, "eagle3", "draft_is_accepted", _Acceptance)
    ]


def _acceptance_figure(candidate: str, seen: _Acceptance, floors: Sequence[float | None]) -> Figure:
    places = range(1, len(seen.positions) + 1)
    # Records of before there were intervals have none.
    intervals = seen.position_intervals if len(seen.position_intervals) == len(places) else (None,) * len(places)
    needed = [*floors, *[None] * len(places)][: len(places)]
    series = [Series("share of verify steps", _points(zip(places, seen.positions, intervals, strict=True)))]
    if bounds := _points((place, floor, None) for place, floor in zip(places, needed, strict=True)):
        series.append(Series("must be at least", bounds, is_bound=True))
    scale = Scale("position of the draft", ticks=tuple(map(float, places)))
    return Figure(
        f"{candidate}: acceptance by position",
        chart(f"share of accepted drafts of {candidate} by position", scale, Scale("accepted"), series),
        "Share of verify steps that accepted at least so many drafts, with its 95 % interval.",
        ("position", "share", "interval", "floor"),
        tuple(zip(places, seen.positions, intervals, needed, strict=True)),
    )


def _reduce_time(candidate: str, evidence: Sequence[Evidence]) -> list[Figure]:
    found = _of(evidence, "allreduce", "no_slower", _ReduceTime)
    return [_reduce_figure(candidate, seen) for _, seen in found if seen.rows]


def _reduce_figure(candidate: str, seen: _ReduceTime) -> Figure:
    series = []
    for regime in dict.fromkeys(map(_regime, seen.rows)):
        rows = sorted((row for row in seen.rows if _regime(row) == regime), key=lambda row: row.size_bytes)
        series += [
            Series(f"{seen.path}, {regime}", _points((row.size_bytes, row.candidate_us, None) for row in rows)),
            Series(f"{seen.baseline}, {regime}", _points((row.size_bytes, row.baseline_us, None) for row in rows)),
        ]
    sizes = [row.size_bytes for row in seen.rows if row.size_bytes > 0] or [1]
    size = Scale(
        "size of the tensor",
        is_log=True,
        ticks=doublings(min(sizes), max(sizes)),
        show=lambda value: show_bytes(round(value)),
    )
    title = f"{candidate}: all-reduce time by size, {seen.ranks} ranks"
    limits = {f"{seen.path} up to": float(seen.limit_bytes)} if seen.limit_bytes else {}
    return Figure(
        title,
        chart(title, size, Scale("microseconds", is_log=True), series, limits),
        "Both axes are logarithmic. Median over all blocks of the slowest rank's time.",
        ("size", f"{seen.path} us", f"{seen.baseline} us", "ratio"),
        tuple((row.bucket, row.candidate_us, row.baseline_us, row.ratio) for row in seen.rows),
    )


def _regime(row: _Row) -> str:
    """``bf16 cached`` of ``64 KiB bf16 cached``."""
    return row.bucket.split(" ", 2)[-1]
