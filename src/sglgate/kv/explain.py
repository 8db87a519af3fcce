"""What happened to the KV pool of a start: found against expected, the fraction the pool speaks of, and the
contradictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sglgate.kv.account import Account, Change, account, changes
from sglgate.kv.budget import GIB, Interval, drift_gib, implied_fraction, minimum_fraction, round_up
from sglgate.kv.case import prepare
from sglgate.kv.checks import RankCheck, pool_of, predict_from_record
from sglgate.kv.fractions import fraction_for, implied_by_tokens, memory
from sglgate.kv.geometry import Config
from sglgate.kv.observed import Observed, RankReadings, observe, question_of
from sglgate.kv.predict import predict
from sglgate.kv.question import Prediction, Question, Verdict
from sglgate.logs import StartupRecord

_FRACTION_TOLERANCE = 0.0015
"""How far a flag may lie from the implied interval: the third decimal, in which SGLang rounds its
defaults."""


@dataclass(frozen=True)
class Explanation:
    """The whole account. ``headline`` is the one line that answers first."""

    headline: str
    prediction: Prediction
    implied: Interval | None
    fraction: float | None
    checks: tuple[RankCheck, ...]
    accounts: tuple[Account, ...]
    contradictions: tuple[str, ...]
    changes: tuple[Change, ...]
    pool_found: bool = True

    def to_json(self) -> dict[str, Any]:
        """The prediction's contract with ``contradictions``, then the rest."""
        implied = self.implied
        return self.prediction.contract() | {
            "contradictions": list(self.contradictions),
            "headline": self.headline,
            "mem_fraction_static": self.fraction,
            "implied_fraction_interval": None if implied is None else [round(implied.low, 4), round(implied.high, 4)],
            "ranks": [check.__dict__ for check in self.checks],
            "card_gib": [one.to_json() for one in self.accounts],
            "changes": [change.__dict__ for change in self.changes],
        }


def explain(
    record: StartupRecord,
    config: Config | None = None,
    *,
    draft_config: Config | None = None,
    version: str | None = None,
    believed_fraction: float | None = None,
    gpu_total_mib: float | None = None,
    request_tokens: int = 4096,
    against: StartupRecord | None = None,
    readings: tuple[float, float] | None = None,
    stated_minimum: float | None = None,
) -> Explanation:
    """Explain one start.

    Args:
        record: the start.
        config: the model's ``config.json``; without it bytes per token are found, not checked.
        draft_config: the draft's.
        version: SGLang's version, where the log does not say it.
        believed_fraction: what somebody believes was set; the log's own argument otherwise.
        gpu_total_mib: the card, to account for what was taken before the first reading.
        request_tokens: length of the request in "the smallest fraction that holds one".
        against: another start to compare with.
        readings: GiB before and after the weights, unrounded (:func:`sglgate.kv.checks.exact_readings`).
        stated_minimum: what SGLang itself named (:func:`sglgate.kv.observed.stated_minimum`).

    Raises:
        MisuseError: the log shows no memory readings.
    """
    observed = observe(record)
    group = next(iter(observed.groups().values()), ())
    question = question_of(observed, group, config or {"architectures": ["Unknown"]}, version).model_copy(
        update={"request_tokens": request_tokens, "gpu_total_mib": gpu_total_mib}
    )
    question = _with_better_figures(question, readings, stated_minimum)
    fraction = believed_fraction if believed_fraction is not None else observed.fraction
    question = question.model_copy(update={"mem_fraction_static": fraction})
    total_gib = None if gpu_total_mib is None else gpu_total_mib / 1024
    accounts = tuple(account(rank, total_gib) for rank in observed.ranks)
    if config is None:
        prediction = Prediction(
            tokens=None,
            tokens_min=None,
            tokens_max=None,
            bytes_per_token=_found_row(observed, group, "target"),
            pool_gib=_printed(group, "target"),
            implied_fraction=None,
            verdict=Verdict.UNDETERMINED,
            notes=("no model configuration: bytes per token are found, not checked (--config)",),
        )
        checks: tuple[RankCheck, ...] = ()
        holds: tuple[float | None, float | None] = (None, None)
    else:
        prediction = predict(question)
        checks = predict_from_record(record, config, draft_config, version, believed_fraction, readings)
        holds = _holds(question, request_tokens)
    implied = _implied(observed, group, question, config)
    if implied is not None:
        prediction = prediction.model_copy(update={"implied_fraction": round(implied.nominal, 4)})
    contradictions = _contradictions(observed, group, fraction, implied, checks)
    return Explanation(
        headline=_headline(observed, group, question, implied, holds, contradictions),
        prediction=prediction,
        implied=implied,
        fraction=fraction,
        checks=checks,
        accounts=accounts,
        contradictions=contradictions,
        changes=changes(observed, observe(against)) if against is not None else (),
        pool_found=pool_of(group, "target") is not None,
    )


def _with_better_figures(
    question: Question, readings: tuple[float, float] | None, stated_minimum: float | None
) -> Question:
    if readings is not None:
        return question.model_copy(update={"pre_gib": readings[0], "avail_gib": readings[1], "rounding_gib": 0.0})
    if stated_minimum is not None and question.pre_gib is not None:
        return question.model_copy(update={"avail_gib": question.pre_gib * (1 - stated_minimum)})
    return question


def _holds(question: Question, request_tokens: int) -> tuple[float | None, float | None]:
    case = prepare(question)
    if case.cell is None:
        return None, None
    pre, avail, _ = memory(case)
    if pre is None or avail is None:
        return None, None
    return (
        fraction_for(case, pre, avail, request_tokens, certain=False),
        fraction_for(case, pre, avail, request_tokens),
    )


def _implied(
    observed: Observed, group: tuple[RankReadings, ...], question: Question, config: Config | None
) -> Interval | None:
    target = pool_of(group, "target")
    if target is None:
        return None
    if config is not None:
        case = prepare(question)
        if case.cell is not None:
            pre, avail, _ = memory(case)
            if pre is not None and avail is not None:
                return implied_by_tokens(case, pre, avail, target.tokens)
    if target.size is None or question.pre_gib is None or question.avail_gib is None:
        return None
    state = group[0].state_gib
    draft = pool_of(group, "draft")
    counted = 0.0
    if draft is not None and draft.size is not None and group[0].draft_before_sizing:
        counted = draft.size.nominal
    half = question.rounding_gib
    off = half + drift_gib(question)
    held = Interval(
        target.size.low + state + counted - 0.02 * bool(counted or state),
        target.size.nominal + state + counted,
        target.size.high + state + counted + 0.1,
    )
    return implied_fraction(
        Interval(question.pre_gib - half, question.pre_gib, question.pre_gib + half),
        Interval(question.avail_gib - off, question.avail_gib, question.avail_gib + off),
        held,
    )


def _contradictions(
    observed: Observed,
    group: tuple[RankReadings, ...],
    fraction: float | None,
    implied: Interval | None,
    checks: tuple[RankCheck, ...],
) -> tuple[str, ...]:
    found: list[str] = []
    if fraction is not None and implied is not None:
        low, high = implied.low - _FRACTION_TOLERANCE, implied.high + _FRACTION_TOLERANCE
        if not low <= fraction <= high:
            found.append(
                f"mem_fraction_static {fraction:g} does not give this pool: it implies "
                f"f = {implied.nominal:.3f} ({implied.low:.4f} to {implied.high:.4f})"
            )
    tokens = {pool.tokens for rank in group if (pool := rank.pool("target")) is not None}
    if len(tokens) > 1:
        found.append(f"the ranks' target pools differ: {sorted(tokens)} tokens")
    for rank in group:
        target, draft = rank.pool("target"), rank.pool("draft")
        if target is not None and draft is not None and target.tokens != draft.tokens:
            found.append(f"{rank.rank or 'the rank'}: the draft has {draft.tokens} tokens, the target {target.tokens}")
    if observed.max_total_num_tokens is not None and tokens and observed.max_total_num_tokens not in tokens:
        found.append(f"the summary says {observed.max_total_num_tokens} tokens, the pools {sorted(tokens)}")
    pres = [rank.pre_gib for rank in group if rank.pre_gib is not None]
    if len(pres) > 1 and min(pres) < 0.9 * max(pres):
        found.append(f"the ranks start with {min(pres):.2f} to {max(pres):.2f} GiB: something else is on a card")
    for check in checks:
        if check.inside is False and not any("does not give this pool" in text for text in found):
            found.append(f"{check.rank or 'the rank'} {check.role}: {check.why}")
    return tuple(found)


def _headline(
    observed: Observed,
    group: tuple[RankReadings, ...],
    question: Question,
    implied: Interval | None,
    holds: tuple[float | None, float | None],
    contradictions: tuple[str, ...],
) -> str:
    pre, avail, fraction = question.pre_gib, question.avail_gib, question.mem_fraction_static
    smallest = f"the smallest fraction that holds one {question.request_tokens}-token request is " + (
        "not known"
        if holds[0] is None
        else f"{holds[0]:.3f}" + ("" if holds[1] is None else f" ({holds[1]:.3f} to be sure)")
    )
    if pre is None or avail is None:
        return "the log shows no free memory before and after the weights"
    rest = None if fraction is None else avail - pre * (1 - fraction)
    least = round_up(minimum_fraction(pre, avail))
    target = pool_of(group, "target")
    if target is None:
        if rest is not None and rest <= 0:
            return f"no pool: {fraction:g} leaves {rest:.2f} GiB; it must exceed {least:.3f}, and {smallest}"
        return "no KV pool was allocated" + (f": {fraction:g} would leave {rest:.2f} GiB" if rest is not None else "")
    if fraction is not None and implied is not None and any("does not give" in text for text in contradictions):
        can = (
            f"{fraction:g} can never work here"
            if rest is not None and rest <= 0
            else f"{fraction:g} gives another pool"
        )
        return (
            f"the run that worked did not use {fraction:g}; its pool implies f = {implied.nominal:.2f}; "
            f"{can}, {smallest}"
        )
    agrees = "" if implied is None else f"; the pool implies f = {implied.nominal:.3f}"
    cap = observed.arguments.get("max_total_tokens")
    if implied is None and isinstance(cap, int) and target.tokens >= cap // observed.page_size * observed.page_size:
        agrees = f"; capped by max_total_tokens {cap}"
    said = "not shown" if fraction is None else f"{fraction:g}"
    return f"{target.tokens} tokens a rank; mem_fraction_static {said}{agrees}" + (
        "" if not contradictions else f"; {len(contradictions)} contradiction(s)"
    )


def _found_row(observed: Observed, group: tuple[RankReadings, ...], role: str) -> float | None:
    pool = pool_of(group, role)
    if pool is None or pool.size is None:
        return None
    return round(pool.size.nominal * GIB / (pool.tokens + observed.page_size), 1)


def _printed(group: tuple[RankReadings, ...], role: str) -> float | None:
    pool = pool_of(group, role)
    return None if pool is None or pool.size is None else pool.size.nominal
