"""Same answers: what both arms said to the same requests, compared token by token. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sglgate.eagle3.probes import Answer, Probe


@dataclass(frozen=True)
class Divergence:
    """The first token that differs. ``gap_nats``: what the target gives the baseline's token over the candidate's.

    None where the target's most likely tokens do not hold the candidate's at all.
    """

    probe: str
    index: int
    baseline: int | None
    candidate: int | None
    gap_nats: float | None
    is_tie: bool

    def __str__(self) -> str:
        gap = "not among the target's likely tokens" if self.gap_nats is None else f"{self.gap_nats:.3f} nats below"
        return f"{self.probe}: token {self.index} is {self.candidate}, not {self.baseline} ({gap})"


def first_divergence(probe: str, baseline: Answer, candidate: Answer, tie_nats: float) -> Divergence | None:
    """Where two greedy answers part, judged by the baseline's own logprobs at that token; None where they are equal.

    After a tie the answers run on over different text, so nothing behind the first difference is compared. An answer
    that merely ends earlier or later is no tie: its missing token has no logprob.
    """
    left, right = baseline.ids, candidate.ids
    for index in range(max(len(left), len(right))):
        a = left[index] if index < len(left) else None
        b = right[index] if index < len(right) else None
        if a == b:
            continue
        likely = dict(baseline.top[index]) if index < len(baseline.top) else {}
        gap = likely[a] - likely[b] if a in likely and b in likely else None
        return Divergence(probe, index, a, b, gap, gap is not None and gap <= tie_nats)
    return None


@dataclass(frozen=True)
class Comparison:
    """One kind of check over all its probes: ``problems`` is empty where both arms agree."""

    kind: str
    probes: int
    tokens: int
    problems: tuple[str, ...]
    ties: tuple[Divergence, ...] = ()


def compare(
    probes: Sequence[Probe], baseline: Mapping[str, Answer], candidate: Mapping[str, Answer], tie_nats: float
) -> dict[str, Comparison]:
    """All checks, by kind. A probe that an arm did not answer is a problem of its kind.

    A probe derived from a greedy answer that ran into a tie is not compared: the two arms would answer another text.
    """
    ties = {
        d.probe: d
        for p in probes
        if p.kind == "greedy"
        and p.name in baseline
        and p.name in candidate
        and (d := first_divergence(p.name, baseline[p.name], candidate[p.name], tie_nats))
        and d.is_tie
    }
    found = {}
    for kind in dict.fromkeys(p.kind for p in probes):
        of_kind = [p for p in probes if p.kind == kind]
        counted = [p for p in of_kind if kind == "greedy" or p.parent not in ties]
        problems: list[str] = []
        for probe in counted:
            problems += _problems(probe, baseline.get(probe.name), candidate.get(probe.name), tie_nats)
        if not counted:
            problems.append("every probe's parent answer ran into a tie: nothing was compared")
        tokens = sum(len(candidate[p.name].ids) for p in counted if p.name in candidate)
        of_ties = tuple(ties.values()) if kind == "greedy" else ()
        found[kind] = Comparison(kind, len(counted), tokens, tuple(problems), of_ties)
    return found


def _problems(probe: Probe, baseline: Answer | None, candidate: Answer | None, tie_nats: float) -> Iterable[str]:
    for arm, answer in (("baseline", baseline), ("candidate", candidate)):
        if answer is None or answer.error:
            yield f"{probe.name}: the {arm} did not answer: {answer.error if answer else 'not asked'}"
    if baseline is None or candidate is None or baseline.error or candidate.error:
        return
    if probe.kind == "abort":
        yield from _aborted(probe.name, candidate)
        return
    divergence = first_divergence(probe.name, baseline, candidate, tie_nats)
    if divergence is not None and not divergence.is_tie:
        yield str(divergence)
    if divergence is None and candidate.finish != baseline.finish:
        yield f"{probe.name}: ended with {candidate.finish}, not {baseline.finish}"
    if {"stop", "stop_token_ids"} & probe.sampling.keys() and baseline.finish.get("type") != "stop":
        yield f"{probe.name}: the baseline did not stop there ({baseline.finish}), so nothing was tried"
    if probe.kind == "length" and len(candidate.ids) != probe.tokens:
        yield f"{probe.name}: {len(candidate.ids)} tokens, {probe.tokens} were asked for"
    if probe.kind == "json" and (why := _no_json(candidate.text)):
        yield f"{probe.name}: {why}"
    if probe.kind == "logprobs":
        yield from _logprobs(probe.name, baseline, candidate, tie_nats)


def _aborted(name: str, candidate: Answer) -> Iterable[str]:
    if candidate.finish.get("type") != "abort":
        yield f"{name}: ended with {candidate.finish}, not by the abort"
    if candidate.after is not None:
        yield f"{name}: the answer after it changed: {candidate.after}"


def _no_json(text: str) -> str | None:
    try:
        json.loads(text)
    except ValueError as error:
        return f"constrained to JSON, and it is none ({error}): {text[:80]!r}"
    return None


def _logprobs(name: str, baseline: Answer, candidate: Answer, tolerance: float) -> Iterable[str]:
    """On the common prefix only: behind the first difference the texts are not the same."""
    if len(candidate.logprobs) != len(candidate.ids):
        yield f"{name}: {len(candidate.logprobs)} logprobs for {len(candidate.ids)} tokens"
        return
    pairs = zip(baseline.ids, candidate.ids, baseline.logprobs, candidate.logprobs, strict=False)
    for index, (a, b, left, right) in enumerate(pairs):
        if a != b:
            return
        if not abs(left - right) <= tolerance:
            yield f"{name}: logprob of token {index} is {right:.3f}, not {left:.3f}"
            return
