"""Predict the pool of one server: the formula at both ends of what the figures may have been before
rounding."""

from __future__ import annotations

from typing import Any

from sglgate.kv.budget import GIB, Interval, minimum_fraction, round_up
from sglgate.kv.case import Case, prepare
from sglgate.kv.fractions import fraction_for, fraction_of, implied_by_tokens, memory, pools
from sglgate.kv.question import Prediction, Question, Verdict
from sglgate.kv.sizing import Pool, Sizing
from sglgate.kv.versions import distinct_releases


def predict(question: Question) -> Prediction:
    """Tokens per rank of one server, with the interval that rounding and unlogged allocations leave.

    Without a version the answer spans all releases that were read.

    Raises:
        MisuseError: figures that contradict each other, or a configuration that lacks what its family needs.
    """
    if question.sglang_version is not None:
        return _predict_one(prepare(question))
    answers = {version: _predict_one(prepare(question, version)) for version in distinct_releases()}
    return _span(answers)


def _predict_one(case: Case) -> Prediction:
    if case.cell is None:
        return _nothing(Verdict.DECLINED, (case.declined,), None)
    pre, avail, memory_notes = memory(case)
    fraction, default, fraction_notes = fraction_of(case)
    notes = case.notes + memory_notes + fraction_notes
    details = _model_details(case)
    if pre is None or avail is None or fraction is None:
        missing = [name for name, value in (("pre_gib", pre), ("avail_gib", avail)) if value is None]
        if missing:
            notes += (f"{' and '.join(missing)} not given: bytes per token only",)
        return _nothing(Verdict.UNDETERMINED, notes, case.cell.sizing, details)
    rest, low, nominal, high = pools(case, fraction, pre, avail)
    details |= {"rest_gib": [rest.low, rest.nominal, rest.high], "mem_fraction_static": fraction}
    if default is not None:
        details["default_fraction"] = [default.low, default.high]
    least = minimum_fraction(pre.nominal, avail.nominal)
    holds = fraction_for(case, pre, avail, case.question.request_tokens, certain=False)
    verdict = _verdict(low, nominal, high, case.question.request_tokens)
    observed = case.question.observed_tokens
    implied = implied_by_tokens(case, pre, avail, observed or nominal.tokens)
    if verdict is Verdict.EXHAUSTED:
        notes += (contradiction(fraction, observed, implied) + cannot_work(case, fraction, rest, least, holds),)
        answer = _nothing(verdict, notes, case.cell.sizing, details)
        shown = None if implied is None or observed is None else round(implied.nominal, 4)
        return answer.model_copy(update={"implied_fraction": shown})
    if verdict is Verdict.UNDETERMINED:
        notes += ("the pool is so small that the rounding of the figures decides whether the server starts",)
    if verdict is Verdict.TOO_SMALL:
        need = "no fraction holds one" if holds is None else f"the smallest fraction that holds one is {holds:.3f}"
        notes += (f"the pool is smaller than one request of {case.question.request_tokens} tokens; {need}",)
    sizing = case.sizing
    details |= _pool_details(case, sizing, nominal)
    notes += _cap_note(case, nominal)
    said = contradiction(fraction, observed, implied)
    if said:
        notes += (said.removesuffix("; "),)
    return Prediction(
        tokens=max(nominal.tokens, 0),
        tokens_min=max(low.tokens, 0),
        tokens_max=max(high.tokens, 0),
        bytes_per_token=case.cell.sizing,
        pool_gib=round(sizing.pool_gib(nominal), 4),
        implied_fraction=None if implied is None else round(implied.nominal, 4),
        verdict=verdict,
        notes=notes,
        details=details,
    )


def _verdict(low: Pool, nominal: Pool, high: Pool, request_tokens: int) -> Verdict:
    if high.tokens <= 0:
        return Verdict.EXHAUSTED
    if low.tokens <= 0:
        return Verdict.UNDETERMINED if nominal.tokens > 0 or high.tokens > 0 else Verdict.EXHAUSTED
    return Verdict.TOO_SMALL if nominal.tokens < request_tokens else Verdict.FITS


def contradiction(fraction: float, observed: int | None, implied: Interval | None) -> str:
    """What an observed pool says against the fraction that it is believed to come from; empty when they
    agree."""
    if observed is None or implied is None or implied.low - 5e-4 <= fraction <= implied.high + 5e-4:
        return ""
    return (
        f"the run that allocated {observed} tokens did not use mem_fraction_static {fraction:g}: its pool "
        f"implies f = {implied.nominal:.2f} ({implied.low:.4f} to {implied.high:.4f}); "
    )


def cannot_work(case: Case, fraction: float, rest: Interval, least: float, holds: float | None) -> str:
    """Why a fraction leaves no pool, and the smallest that would."""
    need = f"one {case.question.request_tokens}-token request"
    tail = f"no fraction below 1 holds {need}" if holds is None else f"the smallest that holds {need} is {holds:.3f}"
    return (
        f"mem_fraction_static {fraction:g} can never work here, it leaves {rest.nominal:.2f} GiB: it must "
        f"exceed {round_up(least):.3f} (1 - avail/pre = {least:.4f}), and {tail}"
    )


def _nothing(
    verdict: Verdict, notes: tuple[str, ...], cell: float | None, details: dict[str, Any] | None = None
) -> Prediction:
    exhausted = verdict is Verdict.EXHAUSTED
    return Prediction(
        tokens=0 if exhausted else None,
        tokens_min=0 if exhausted else None,
        tokens_max=0 if exhausted else None,
        bytes_per_token=cell,
        pool_gib=0.0 if exhausted else None,
        implied_fraction=None,
        verdict=verdict,
        notes=notes,
        details=details or {},
    )


def _span(answers: dict[str, Prediction]) -> Prediction:
    newest = list(answers.values())[-1]
    known = [answer for answer in answers.values() if answer.tokens_min is not None]
    if len(known) < len(answers) or not known:
        return newest.model_copy(
            update={"notes": (*newest.notes, f"no version given: the rules of {list(answers)[-1]} were applied")}
        )
    same = len({answer.tokens for answer in known}) == 1
    note = (
        "no version given: every release that was read sizes this pool alike"
        if same
        else f"no version given: the interval spans the rules of {next(iter(answers))} to {list(answers)[-1]}"
    )
    return newest.model_copy(
        update={
            "tokens_min": min(answer.tokens_min or 0 for answer in known),
            "tokens_max": max(answer.tokens_max or 0 for answer in known),
            "notes": (*newest.notes, note),
        }
    )


def _cap_note(case: Case, pool: Pool) -> tuple[str, ...]:
    cap = case.question.max_total_tokens
    if cap is not None and pool.tokens > cap:
        return (f"{case.rules.read_in} caps by max_total_tokens before it splits the pools: one is larger",)
    return ()


def _model_details(case: Case) -> dict[str, Any]:
    if case.cell is None:
        return {}
    return {
        "family": str(case.geometry.family),
        "architecture": case.geometry.architecture,
        "kv_dtype": case.kv_dtype,
        "row_bytes": case.cell.row,
        "swa_row_bytes": case.cell.swa_row or None,
        "draft_share_bytes": case.cell.draft_share,
        "draft_row_bytes": case.draft_row,
        "attention_tp": case.split.attention_tp,
    }


def _pool_details(case: Case, sizing: Sizing, pool: Pool) -> dict[str, Any]:
    context = case.question.context_length or case.geometry.context_length or 2048
    asked = case.question.request_tokens
    return {
        "swa_tokens": pool.swa_tokens,
        "state_slots": None if pool.state is None else pool.state.slots,
        "state_bytes_per_slot": None if pool.state is None else pool.state.bytes_per_slot,
        "request_slots": sizing.request_slots(pool, context),
        "requests_of_asked_length": max(pool.tokens, 0) // asked,
        "request_tokens": asked,
        "draft_pool_gib": None
        if case.draft_row is None
        else round((pool.tokens + case.question.page_size) * case.draft_row / GIB, 4),
    }
