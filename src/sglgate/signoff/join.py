"""Every gate and every metric of two runs, side by side, each with what it means for the release."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from enum import StrEnum

from sglgate.evidence import Evidence, Verdict, number
from sglgate.signoff.intervals import Change, change, has_interval, widening
from sglgate.signoff.side import Key, Side
from sglgate.speed.releases import AGAINST, CELL, IN_TURN, OVER_LAUNCHES, metric_over_launches

#: A change smaller than this is none, however sure.
MARGIN = 0.02
#: A loss of this size must be seen if it is there: where the intervals are too wide to rule it out, the metric is
#: evidence of nothing. A ratio's own gate may allow more.
RESOLUTION = 0.05
#: Counts and sizes: a single reading is the fact itself, where a time is one sample of many.
EXACT_UNITS = frozenset({"tokens", "bytes", "GiB", "ranks", "answers", "requests", "sizes"})
#: Under this key of its detail a gate leaves {prompt: answer}, and sign-off holds one release's against the other's.
ANSWERS = "answers"


class Kind(StrEnum):
    """What a difference is, in the order of the page: paths lead it. See :data:`BLOCKING` and :data:`LACKING`."""

    PATH_LOST = "path lost"
    PATH_GAINED = "path gained"
    REGRESSION = "regression"
    RED_IN_BOTH = "red in both"
    NEW_AND_RED = "new and red"
    ANSWERS_CHANGED = "answers changed"
    UNJUDGED = "not judged"
    UNRESOLVED = "too noisy to tell"
    COVERAGE_LOST = "coverage lost"
    GAIN = "gain"
    COVERAGE_GAINED = "coverage gained"


#: NO-GO until accepted.
BLOCKING = frozenset({Kind.PATH_LOST, Kind.REGRESSION, Kind.RED_IN_BOTH, Kind.NEW_AND_RED, Kind.ANSWERS_CHANGED})
#: NOT ENOUGH EVIDENCE until accepted.
LACKING = frozenset({Kind.UNJUDGED, Kind.UNRESOLVED, Kind.COVERAGE_LOST})


@dataclass(frozen=True)
class Item:
    """One difference. ``id`` is what ``--accept`` takes; the same difference of the same gate has the same one."""

    kind: Kind
    candidate: str
    suite: str
    gate: str
    metric: str
    text: str
    old: str = ""
    new: str = ""
    change: Change | None = None
    causes: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Six hex digits."""
        text = "\x1f".join((self.kind, self.candidate, self.suite, self.gate, self.metric))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:6]


@dataclass(frozen=True)
class Row:
    """One metric in both runs; ``change`` is None where nothing can be computed."""

    key: Key
    unit: str
    old: Evidence
    new: Evidence
    change: Change | None


def join(old: Side, new: Side, margin: float = MARGIN) -> tuple[list[Item], list[Row]]:
    """Differences that somebody must know of, gravest kind first, and every metric that both runs hold."""
    items = [*_gates(old, new)]
    red = {(item.candidate, item.suite, item.gate) for item in items}
    items += [item for item in _metrics_of_one_side(old, new) if (item.candidate, item.suite, item.gate) not in red]
    rows, in_turn = _rows(old, new), _rows_in_turn(new)
    settled = {
        (*row.key[:2], OVER_LAUNCHES, metric_over_launches(row.new.detail[CELL])) for row in in_turn if row.change
    }
    for row in rows:
        # What the releases showed in turn is not asked again of two runs at different times.
        if row.key[:3] not in red and row.key not in settled and (item := _moved(row, margin)) is not None:
            items.append(item)
        items += _answers(row)
    items += [item for row in in_turn if (item := _moved_in_turn(row, margin)) is not None]
    rows += [row for row in in_turn if row.change is not None]
    order = list(Kind)
    return sorted(items, key=lambda item: order.index(item.kind)), rows


def _gates(old: Side, new: Side) -> list[Item]:
    cells = [
        {(candidate, *gate): cell for candidate, row in side.board.cells.items() for gate, cell in row.items()}
        for side in (old, new)
    ]
    found = []
    for key in dict.fromkeys([*cells[0], *cells[1]]):
        if key[2] == IN_TURN:
            continue  # what one run says of both releases has nothing to be held against
        before, after = cells[0].get(key), cells[1].get(key)
        kind = _kind(before.verdict if before else None, after.verdict if after else None)
        if kind is None:
            continue
        shown_cell = after or before
        text = _said(shown_cell.telling) if shown_cell else ""
        if before is not None and kind in (Kind.GAIN, Kind.PATH_GAINED):
            text = f"before: {_said(before.telling)}"
            if kind is Kind.GAIN and before.telling.value is None:
                # Nothing was measured before, as where the server did not come up: no better figure, a first one.
                kind = Kind.COVERAGE_GAINED
        found.append(
            Item(
                kind,
                *key,
                metric="",
                text=text,
                old=str(before.verdict) if before else "absent",
                new=str(after.verdict) if after else "absent",
            )
        )
    return found


def _said(record: Evidence) -> str:
    """The reason of a record: its first lines, without the advice and the path that a failed launch adds."""
    return "\n".join(record.reason.splitlines()[:3])


def _kind(old: Verdict | None, new: Verdict | None) -> Kind | None:
    green = Verdict.PASS
    if new is None:
        return Kind.COVERAGE_LOST
    if old is None:
        return Kind.COVERAGE_GAINED if new is green else Kind.NEW_AND_RED
    if old is green is new:
        return None
    if new is green:
        return Kind.PATH_GAINED if old is Verdict.NOT_EXERCISED else Kind.GAIN
    if new in (Verdict.UNFIT, Verdict.INCONCLUSIVE):
        return Kind.UNJUDGED
    if old is not green:
        return Kind.RED_IN_BOTH if old in (Verdict.FAIL, Verdict.NOT_EXERCISED) else Kind.REGRESSION
    return Kind.PATH_LOST if new is Verdict.NOT_EXERCISED else Kind.REGRESSION


def _metrics_of_one_side(old: Side, new: Side) -> list[Item]:
    """A gate that looks at fewer ranks, sizes or cells than it did is green for less."""
    return [
        Item(kind, *key, text=f"{key[3]}: {word}")
        for here, there, kind, word in (
            (old, new, Kind.COVERAGE_LOST, "not measured any more"),
            (new, old, Kind.COVERAGE_GAINED, "not measured before"),
        )
        for key in here.metrics
        if key not in there.metrics and key[2] != IN_TURN
    ]


def _rows(old: Side, new: Side) -> list[Row]:
    shared = [key for key in old.metrics if key in new.metrics and key[2] != IN_TURN]
    judged = sum(has_interval(old.metrics[key]) and has_interval(new.metrics[key]) for key in shared)
    widened = widening(judged)
    return [Row(key, (b := new.metrics[key]).unit, a := old.metrics[key], b, change(a, b, widened)) for key in shared]


def _rows_in_turn(new: Side) -> list[Row]:
    """What the second run measured of both releases, launch by launch in turn: each ratio is the change itself."""
    found = []
    for key, record in new.metrics.items():
        if key[2] == IN_TURN:
            itself = record.model_copy(update={"value": 1.0, "interval": (1.0, 1.0)})
            is_ratio = {AGAINST, CELL} <= record.detail.keys() and has_interval(record)
            found.append(Row(key, record.unit, itself, record, change(itself, record) if is_ratio else None))
    return found


def _moved_in_turn(row: Row, margin: float) -> Item | None:
    """A loss is one whatever the gate's own bound allows; beside that, a verdict that it does not give is lacking."""
    verdict, moved = row.new.verdict, _moved(row, margin)
    if verdict is Verdict.PASS or (moved is not None and moved.kind is Kind.REGRESSION):
        return moved
    kind = Kind.REGRESSION if verdict is Verdict.FAIL else Kind.UNJUDGED
    return Item(kind, *row.key, text=_said(row.new), new=str(verdict), change=row.change)


def _moved(row: Row, margin: float) -> Item | None:
    step = row.change
    if step is None or row.new.direction not in ("at_least", "at_most"):
        return None
    exact = step.low is None and row.unit in EXACT_UNITS
    text = f"{row.key[3]} {in_words(step, row.unit)}"
    if (step.is_established or exact) and abs(step.value) >= (margin if step.is_ratio else 1e-12):
        is_worse = (step.value < 0) == (row.new.direction == "at_least")
        kind = Kind.REGRESSION if is_worse else Kind.GAIN
    elif unseen := _unseen(row, step):
        kind, text = Kind.UNRESOLVED, f"{text}: {unseen}"
    else:
        return None
    return Item(kind, *row.key, text=text, old=shown(row.old.value), new=shown(row.new.value), change=step)


def _unseen(row: Row, step: Change) -> str:
    """Which loss could be there unseen; empty where none of :data:`RESOLUTION` could."""
    worst = step.worst(row.new.direction)
    if worst is None or not step.is_ratio:
        return ""
    bound = number(row.new.bound)
    allowed = max(RESOLUTION, abs(bound - 1) if row.unit == "ratio" and bound is not None else 0.0)
    if worst > -allowed:
        return ""
    reach = worst - (step.value if row.new.direction == "at_least" else -step.value)
    samples = f"; about {math.ceil(row.new.n * (reach / allowed) ** 2)} samples a side would tell" if row.new.n else ""
    return f"a loss of {allowed * 100:.3g} % cannot be ruled out{samples}"


def _answers(row: Row) -> list[Item]:
    old, new = row.old.detail.get(ANSWERS), row.new.detail.get(ANSWERS)
    if not isinstance(old, dict) or not isinstance(new, dict):
        return []
    shared = [prompt for prompt in old if prompt in new]
    changed = [prompt for prompt in shared if old[prompt] != new[prompt]]
    if not changed:
        return []
    text = f"{len(changed)} of {len(shared)} answers changed, the first to {changed[0][:120]!r}"
    return [Item(Kind.ANSWERS_CHANGED, *row.key, text=text, old=str(old[changed[0]]), new=str(new[changed[0]]))]


def in_words(step: Change, unit: str) -> str:
    """``-5.0 % (-6.1 % to -3.9 %)``, or in the unit where a ratio makes no sense."""

    def one(value: float) -> str:
        return f"{value * 100:+.2f} %" if step.is_ratio else f"{value:+.6g} {unit}".rstrip()

    if step.low is None or step.high is None:
        return f"{one(step.value)} (single readings)"
    return f"{one(step.value)} ({one(step.low)} to {one(step.high)})"


def shown(value: object) -> str:
    """A value for a table."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
