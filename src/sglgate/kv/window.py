"""The fractions between which a server starts and runs: the lowest that leaves a pool, the highest that
leaves room for work."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sglgate.errors import MisuseError
from sglgate.kv.budget import Interval, minimum_fraction, round_up
from sglgate.kv.case import Case, prepare
from sglgate.kv.defaults import default_fraction
from sglgate.kv.fractions import fraction_for, memory, pools
from sglgate.kv.question import Question

STEPS = 48
"""Points of a sweep over the whole range."""


@dataclass(frozen=True)
class Point:
    """The pool of one fraction."""

    fraction: float
    tokens_min: int
    tokens: int
    tokens_max: int


@dataclass(frozen=True)
class Window:
    """Fractions that work. ``lowest`` None: no pool for one request at any fraction. Empty when ``highest``
    < ``lowest``."""

    starts_above: float
    """Below it SGLang refuses to start: 1 - avail / pre, rounded up."""
    lowest: float | None
    """The smallest fraction whose pool holds one request of ``request_tokens`` for certain."""
    highest: float
    """The largest fraction that still leaves ``headroom_gib``."""
    request_tokens: int
    headroom_gib: float
    assumption: str
    default_low: float | None
    default_high: float | None
    points: tuple[Point, ...]

    @property
    def empty(self) -> bool:
        """Whether no fraction works."""
        return self.lowest is None or self.highest < self.lowest

    @property
    def default_position(self) -> str:
        """Where the default lands: below, inside, above, or unknown."""
        if self.default_high is None or self.default_low is None or self.lowest is None:
            return "unknown"
        if self.default_high < self.lowest:
            return "below"
        return "above" if self.default_low > self.highest else "inside"

    def to_json(self) -> dict[str, Any]:
        """All fields as plain values."""
        return asdict(self) | {"empty": self.empty, "default_position": self.default_position}


def fraction_window(
    question: Question,
    request_tokens: int | None = None,
    headroom_gib: float | None = None,
    steps: int = STEPS,
) -> Window:
    """The working window of a server on its memory.

    Args:
        question: with ``pre_gib`` and ``avail_gib``, or what they can be estimated from.
        request_tokens: length of the one request that must fit; the question's own otherwise.
        headroom_gib: what graphs and activations were measured to need; else SGLang's reserve for the card.
        steps: points of the sweep.

    Raises:
        MisuseError: the model is not modelled, or the memory is not known.
    """
    case = prepare(question)
    if case.cell is None:
        raise MisuseError(f"no window: {case.declined}", key="model_config")
    pre, avail, notes = memory(case)
    if pre is None or avail is None:
        raise MisuseError(
            "a window needs the free memory before and after the weights",
            key="pre_gib, avail_gib",
            expected='both ("Load weight begin", "Load weight end"), or gpu_total_mib and weights_gib',
        )
    wanted = request_tokens or question.request_tokens
    headroom, assumption = _headroom(case, pre, headroom_gib)
    default = default_fraction(case.question, case.rules, case.geometry, case.config)
    starts = minimum_fraction(pre.nominal, avail.nominal)
    return Window(
        starts_above=round_up(starts),
        lowest=fraction_for(case, pre, avail, wanted),
        highest=_floor3(1 - headroom / pre.nominal),
        request_tokens=wanted,
        headroom_gib=headroom,
        assumption="; ".join((assumption, *notes)),
        default_low=None if default is None else default.low,
        default_high=None if default is None else default.high,
        points=sweep(case, pre, avail, max(0.001, starts - 0.02), 0.999, steps),
    )


def sweep(case: Case, pre: Interval, avail: Interval, first: float, last: float, steps: int) -> tuple[Point, ...]:
    """Pools at ``steps`` + 1 evenly spaced fractions."""
    points = []
    for step in range(steps + 1):
        fraction = round(first + (last - first) * step / steps, 4)
        _, low, nominal, high = pools(case, fraction, pre, avail)
        points.append(Point(fraction, max(0, low.tokens), max(0, nominal.tokens), max(0, high.tokens)))
    return tuple(points)


def _headroom(case: Case, pre: Interval, measured_gib: float | None) -> tuple[float, str]:
    if measured_gib is not None:
        if measured_gib < 0:
            raise MisuseError("must not be negative", key="headroom_gib", value=measured_gib)
        return measured_gib, f"graphs and activations need {measured_gib:g} GiB, as given"
    question = case.question
    if question.gpu_total_mib is None:
        # The reserve's bins are wide: the free memory of an idle card falls into the card's own bin.
        question = question.model_copy(update={"gpu_total_mib": pre.nominal * 1024})
    reserve = default_fraction(question, case.rules, case.geometry, case.config)
    mib = 0.0 if reserve is None else reserve.reserve_mib
    return mib / 1024, (
        f"graphs and activations are taken to need SGLang's own reserve for this card, {mib / 1024:.2f} GiB "
        f"({'' if reserve is None else reserve.why}); a measured figure would be better"
    )


def _floor3(fraction: float) -> float:
    return int(max(0.0, fraction) * 1000) / 1000
