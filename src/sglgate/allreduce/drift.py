"""Does the model still say the same? Teacher-forced logprobs and greedy answers against the baseline's.

The bound is the baseline's own: how far it drifts from itself under another batch shape and after a relaunch. A
reduction that is wrong only at one size, or only under load, changes what the model says and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sglgate.allreduce.verdicts import Finding
from sglgate.errors import SglgateError
from sglgate.evidence import Verdict

# How far beyond its own noise the baseline may be left, and the least noise that it is credited with: identical
# answers of the baseline with itself must not make the last bit of a bf16 logit an offence.
NOISE_FACTOR = 3.0
LEAST_MEAN, LEAST_WORST = 1e-3, 2e-2


class DriftError(SglgateError):
    """Answers that cannot be compared: other tokens for the same text, or no logprobs."""


@dataclass(frozen=True)
class Said:
    """What one server said about one text.

    Attributes:
        tokens: ids of the text, the first one excluded (nothing predicts it).
        logprobs: of each of these tokens, natural log.
        top: the most probable tokens at each position, ``{id: logprob}``.
        greedy: ids of the greedy answer.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    top: tuple[Mapping[int, float], ...]
    greedy: tuple[int, ...]

    @classmethod
    def read(cls, answer: Mapping[str, Any]) -> Said:
        """From ``/generate`` with ``return_logprob`` and ``logprob_start_len`` 0.

        Raises:
            DriftError: the answer has no logprobs of the input.
        """
        meta = answer["meta_info"]
        if not meta.get("input_token_logprobs") or "output_ids" not in answer:
            raise DriftError("/generate answered without input_token_logprobs or output_ids")
        forced = meta["input_token_logprobs"][1:]
        top = meta.get("input_top_logprobs", [None] * (len(forced) + 1))[1:]
        return cls(
            tokens=tuple(int(entry[1]) for entry in forced),
            logprobs=tuple(float(entry[0]) for entry in forced),
            top=tuple({int(one[1]): float(one[0]) for one in position or ()} for position in top),
            greedy=tuple(int(token) for token in answer["output_ids"]),
        )


Answers = Mapping[str, Said]
"""By the name of the text."""


@dataclass(frozen=True)
class Drift:
    """How far two servers are apart over all texts, in nats; ``where`` the worst token is."""

    mean: float
    worst: float
    where: tuple[str, int]
    tokens: int


def steps(one: Answers, other: Answers) -> dict[str, list[float]]:
    """By text, how far each forced token's logprob is from ``one`` to ``other``, in nats.

    Raises:
        DriftError: other texts, or other tokens for one of them.
    """
    if not one or set(one) != set(other):
        raise DriftError(f"other texts: {sorted(set(one) ^ set(other)) or 'none at all'}")
    for name, said in one.items():
        if said.tokens != other[name].tokens:
            raise DriftError(f"text {name!r} became other tokens: these are two tokenizers")
    return {
        name: [after - before for before, after in zip(said.logprobs, other[name].logprobs, strict=True)]
        for name, said in one.items()
    }


def drift(one: Answers, other: Answers) -> Drift:
    """Mean and worst absolute difference of the forced tokens' logprobs.

    Raises:
        DriftError: see :func:`steps`.
    """
    total, count, worst, where = 0.0, 0, -1.0, ("", 0)
    for name, by_token in steps(one, other).items():
        for position, step in enumerate(by_token):
            # NaN compares false with everything, and must be the worst there is.
            apart = abs(step) if step == step else float("inf")
            total, count = total + apart, count + 1
            if apart > worst:
                worst, where = apart, (name, position)
    return Drift(total / count, worst, where, count)


@dataclass(frozen=True)
class Bound:
    """What the baseline's own noise allows: mean and worst, nats."""

    mean: float
    worst: float

    @classmethod
    def of(cls, own: Sequence[Drift], factor: float = NOISE_FACTOR) -> Bound:
        """From the baseline against itself: other batch shapes, a relaunch."""
        if not own:
            raise DriftError("the baseline was not compared with itself")
        return cls(
            mean=factor * max(LEAST_MEAN, *(one.mean for one in own)),
            worst=factor * max(LEAST_WORST, *(one.worst for one in own)),
        )


def judge(baseline: Answers, candidate: Answers, bound: Bound, *, load: str) -> Finding:
    """PASS when mean and worst drift are within what the baseline does to itself.

    Args:
        load: how both were asked (``batch 1``, ``under load``), for the reason.
    """
    found = drift(baseline, candidate)
    name, position = found.where
    detail: dict[str, Any] = {
        "load": load,
        "tokens": found.tokens,
        "mean_nats": found.mean,
        "worst_nats": found.worst,
        "bound_mean_nats": bound.mean,
        "bound_worst_nats": bound.worst,
        "worst_at": {
            "text": name,
            "position": position + 1,
            "token": baseline[name].tokens[position],
            "baseline": _shown(baseline[name], position),
            "candidate": _shown(candidate[name], position),
        },
    }
    if not found.worst <= bound.worst:
        reason = f"{load}: text {name!r}, token {position + 1} drifts {found.worst:.4f} nats (bound {bound.worst:.4f})"
        return Finding(Verdict.FAIL, reason, detail)
    if not found.mean <= bound.mean:
        reason = f"{load}: {found.tokens} tokens drift {found.mean:.5f} nats on average (bound {bound.mean:.5f})"
        return Finding(Verdict.FAIL, reason, detail)
    reason = f"{load}: {found.tokens} tokens drift {found.mean:.5f} nats on average, {found.worst:.4f} at worst"
    return Finding(Verdict.PASS, reason, detail)


def _shown(said: Said, position: int) -> dict[str, Any]:
    top = said.top[position] if position < len(said.top) else {}
    return {"logprob": said.logprobs[position], "top": {str(token): value for token, value in top.items()}}


def _parting(one: Sequence[int], other: Sequence[int]) -> int:
    for position, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return position
    return min(len(one), len(other))


def judge_greedy(baseline: Sequence[Answers], candidate: Answers, *, load: str) -> Finding:
    """Greedy answers: red where all of the baseline's own agree and the candidate's parts from them.

    A text on which the baseline does not agree with itself cannot be judged and is named; if that is all of them,
    nothing was judged.
    """
    agreed = {
        text: said.greedy
        for text, said in baseline[0].items()
        if all(other[text].greedy == said.greedy for other in baseline[1:])
    }
    unsteady = sorted(set(baseline[0]) - set(agreed))
    detail = {"load": load, "judged": sorted(agreed), "baseline_disagrees_with_itself": unsteady}
    if not agreed:
        return Finding(Verdict.INCONCLUSIVE, f"{load}: the baseline never answers alike twice", detail)
    for text, answer in agreed.items():
        if candidate[text].greedy != answer:
            position = _parting(answer, candidate[text].greedy)
            reason = f"{load}: text {text!r}: the greedy answer parts from the baseline's at token {position + 1}"
            return Finding(Verdict.FAIL, reason, detail)
    return Finding(Verdict.PASS, f"{load}: {len(agreed)} greedy answers are the baseline's", detail)
