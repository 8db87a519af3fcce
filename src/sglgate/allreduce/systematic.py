"""A wrong model among right ones that only round otherwise.

Rounding changes with the shape of the batch, a wrong sum does not: what two servers differ by when asked alone and
what they differ by under load have only the wrong part in common. So the mean product of both differences is the
square of the systematic drift, and rounding averages out of it, where in the mean drift it hides several percent of
a layer's output.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

from sglgate.allreduce.drift import LEAST_MEAN, Answers, DriftError, steps
from sglgate.allreduce.verdicts import Finding
from sglgate.evidence import Verdict

#: Of what the baseline drifts from itself between the loads. Another order of summation at the same number of ranks
#: keeps some of its rounding under both loads, so the bound is not zero.
SHARE = 0.5
#: Tokens that follow each other are not independent samples.
CHUNK_TOKENS = 16
_Z = NormalDist().inv_cdf(0.95)


def judge_systematic(baseline: Mapping[str, Answers], candidate: Mapping[str, Answers]) -> Finding:
    """PASS when the upper 95 % bound of the systematic drift is within :data:`SHARE` of the baseline's own noise.

    Args:
        baseline: the answers by load, of two loads; ``candidate`` of the same.

    The finding's detail has ``rms_nats``, ``interval_nats``, ``bound_nats``, ``tokens``.

    Raises:
        DriftError: not two loads, or not the same; or other texts or tokens, see :func:`sglgate.allreduce.drift.steps`.
    """
    if len(baseline) != 2 or set(baseline) != set(candidate):
        raise DriftError(f"the systematic drift needs the same two loads of both: {list(baseline)}, {list(candidate)}")
    alone, loaded = baseline
    noise = [step for by_token in steps(baseline[alone], baseline[loaded]).values() for step in by_token]
    bound = max(LEAST_MEAN, SHARE * math.sqrt(math.fsum(step * step for step in noise) / len(noise)))
    pairs = zip(_chunks(baseline[alone], candidate[alone]), _chunks(baseline[loaded], candidate[loaded]), strict=True)
    chunks = [[one * other for one, other in zip(*pair, strict=True)] for pair in pairs]
    tokens = sum(map(len, chunks))
    square = sum(map(sum, chunks)) / tokens
    spread = math.fsum((sum(chunk) - square * len(chunk)) ** 2 for chunk in chunks)
    error = _Z * math.sqrt(spread * len(chunks) / max(1, len(chunks) - 1)) / tokens
    low, rms, high = (_root(value) for value in (square - error, square, square + error))
    detail: dict[str, Any] = {"rms_nats": rms, "interval_nats": (low, high), "bound_nats": bound, "tokens": tokens}
    said = f"systematic drift of {tokens} tokens: {rms:.4f} nats ({low:.4f} to {high:.4f}), bound {bound:.4f}"
    if square != square or low > bound:
        return Finding(Verdict.FAIL, f"{said}: more than rounding does", detail)
    if len(chunks) < 2 or high > bound:
        return Finding(Verdict.INCONCLUSIVE, f"{said}: more text is needed to tell it from rounding", detail)
    return Finding(Verdict.PASS, said, detail)


def _chunks(one: Answers, other: Answers) -> list[list[float]]:
    return [
        by_token[start : start + CHUNK_TOKENS]
        for by_token in steps(one, other).values()
        for start in range(0, len(by_token), CHUNK_TOKENS)
    ]


def _root(square: float) -> float:
    return math.sqrt(max(0.0, square)) if square == square else math.inf
