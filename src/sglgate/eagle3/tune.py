"""Find the best speculative setting with few launches: measure the ends, predict between them, confirm the best.

One launch of the longest chain gives the acceptance rate of every position, so of every shorter chain; a second of the
shortest tells drafting from verifying. What the model then calls best is measured. Trees follow from the best chain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sglgate.config import Candidate
from sglgate.eagle3.cost_model import predict_steps
from sglgate.errors import MisuseError, SglgateError
from sglgate.load import LoadResult

_KEYS: Final = ("speculative-num-steps", "speculative-eagle-topk", "speculative-num-draft-tokens")


@dataclass(frozen=True, order=True)
class Setting:
    """What is searched: draft steps, branches, and draft tokens that the target verifies."""

    steps: int
    topk: int
    draft_tokens: int

    @classmethod
    def chain(cls, steps: int) -> Setting:
        """One branch: SGLang verifies its drafts and the target's own token."""
        return cls(steps, 1, steps + 1)

    def of(self, candidate: Candidate) -> Candidate:
        """The candidate with this setting."""
        values = dict(zip(_KEYS, (self.steps, self.topk, self.draft_tokens), strict=True))
        name = f"{candidate.name}--s{self.steps}-k{self.topk}-t{self.draft_tokens}"
        return candidate.model_copy(update={"name": name, "arguments": {**candidate.arguments, **values}})


@dataclass(frozen=True)
class Figures:
    """One launch under the fixed load. ``gap_ms``: between two events of a stream, so a step, or a whole round."""

    tok_per_s: float
    gap_ms: float
    accept_length: float
    position_rates: tuple[float, ...] = ()

    @classmethod
    def of(cls, result: LoadResult) -> Figures:
        """From a load; SglgateError where a request failed."""
        metrics = result.metrics
        if not result.usable or metrics is None or metrics.gap_ms is None:
            raise SglgateError(result.reason)
        seen = metrics.acceptance
        length, rates = (seen.accept_length, seen.position_rates) if seen else (1.0, ())
        return cls(metrics.tok_per_s, metrics.gap_ms.mean, length, rates)


@dataclass(frozen=True)
class Point:
    """One setting. ``ratio`` to plain decoding was measured where ``figures`` is there, else predicted only."""

    setting: Setting
    ratio: float
    predicted_ratio: float | None
    figures: Figures | None


@dataclass(frozen=True)
class Surface:
    """All that was measured or predicted. ``draft_step_ms`` and ``verify_ms``: None where one chain length was all."""

    plain: Figures
    points: tuple[Point, ...]
    best: Point
    draft_step_ms: float | None
    verify_ms: float | None
    launches: int

    @property
    def pays(self) -> bool:
        """Whether any setting beats plain decoding."""
        return self.best.ratio > 1


Measure = Callable[[Setting | None], Figures]


def tune(
    measure: Measure, *, max_steps: int, topks: Sequence[int] = (1,), max_draft_tokens: int = 64, launches: int = 8
) -> Surface:
    """Search. One launch a setting: near the top, settings differ by less than launches do.

    Args:
        measure: launches a setting (None: without speculation) and loads it.
        max_steps: the longest chain.
        topks: branches to try after the chains; 1 is always tried.
        max_draft_tokens: the largest tree that the target may have to verify.
        launches: at most so many, the plain one included.

    Raises:
        MisuseError: a range that holds no setting.
    """
    for key, value, least in (("max_steps", max_steps, 1), ("launches", launches, 2)):
        if value < least:
            raise MisuseError(f"must be at least {least}", key=key, value=value)
    if any(topk < 1 for topk in topks):
        raise MisuseError("must be at least 1", key="topks", value=tuple(topks))
    plain = measure(None)
    seen: dict[Setting, Figures] = {}

    def look(setting: Setting) -> Figures | None:
        if setting not in seen and len(seen) + 1 < launches:
            seen[setting] = measure(setting)
        return seen.get(setting)

    for steps in dict.fromkeys((max_steps, 1)):
        look(Setting.chain(steps))
    while True:
        predicted = _predict(plain, seen, max_steps)
        ranked = sorted(predicted, key=lambda setting: -predicted[setting])
        # What was measured is not predicted any more: the search goes on while the model hopes for better.
        top = max(f.tok_per_s for f in seen.values()) / plain.tok_per_s
        hope = next((s for s in ranked if s not in seen and predicted[s] > top), None)
        if hope is None or look(hope) is None:
            break
    best = max(seen, key=lambda setting: seen[setting].tok_per_s)
    for topk in sorted(set(topks) - {1}):
        tree = Setting(best.steps, topk, min(best.steps * topk + 1, max_draft_tokens))
        found = look(tree)
        if found is None or found.tok_per_s <= seen[best].tok_per_s:
            # A wider tree costs more to verify: where this one does not pay, wider ones do not either.
            break
        best = tree
    step_ms, verify_ms = _split(seen)
    settings = sorted(predicted.keys() | seen.keys())
    points = {
        s: Point(
            s,
            seen[s].tok_per_s / plain.tok_per_s if s in seen else predicted[s],
            predicted.get(s),
            seen.get(s),
        )
        for s in settings
    }
    return Surface(plain, tuple(points.values()), points[best], step_ms, verify_ms, len(seen) + 1)


def _split(seen: Mapping[Setting, Figures]) -> tuple[float | None, float | None]:
    """(ms of one draft step, ms of verifying): a line through the rounds of the shortest and the longest chain.

    What verifying a longer chain costs beyond a shorter one counts as drafting.
    """
    chains = sorted(s for s in seen if s.topk == 1)
    if len(chains) < 2:
        return None, None
    short, long = chains[0], chains[-1]
    step = (seen[long].gap_ms - seen[short].gap_ms) / (long.steps - short.steps)
    # Noise may make a longer chain look cheaper; a step never gives time back.
    step = max(0.0, step)
    return step, max(seen[short].gap_ms - step * short.steps, 1e-3)


def _predict(plain: Figures, seen: Mapping[Setting, Figures], max_steps: int) -> dict[Setting, float]:
    step_ms, verify_ms = _split(seen)
    rates = seen[Setting.chain(max_steps)].position_rates if Setting.chain(max_steps) in seen else ()
    if step_ms is None or verify_ms is None or len(rates) < max_steps:
        return {}
    found = predict_steps(rates[:max_steps], plain_ms=plain.gap_ms, draft_step_ms=step_ms, verify_ms=verify_ms)
    return {Setting.chain(item.steps): item.ratio for item in found}
