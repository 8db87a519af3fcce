"""Why speculation pays or does not, in milliseconds.

Plain decoding emits one token a step. Under speculation a round drafts, verifies, and emits L tokens (the
acceptance length). Per stream, at one concurrency:

    ratio      = L * plain_ms / (draft_ms + verify_ms)
    break-even L = (draft_ms + verify_ms) / plain_ms

Source of the form: Leviathan et al. 2023, "Fast Inference from Transformers via Speculative Decoding",
section 3 (walltime improvement), with measured times in place of their cost coefficient. All functions are
pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sglgate.errors import MisuseError


@dataclass(frozen=True)
class StepTimes:
    """Milliseconds of one step, at the concurrency judged.

    Attributes:
        plain_ms: one decode step of the baseline; 1000 / (tokens per second per user).
        verify_ms: one verify step of the target over all draft tokens.
        draft_ms: all drafting of one round. 0 where it is not known apart; then ``verify_ms`` is the whole
            round, or the predicted ratio is an upper bound and the break-even length a lower one.
    """

    plain_ms: float
    verify_ms: float
    draft_ms: float = 0.0

    def __post_init__(self) -> None:
        _positive("plain_ms", self.plain_ms)
        _positive("verify_ms", self.verify_ms)
        if not self.draft_ms >= 0:
            raise MisuseError("must not be negative", key="draft_ms", value=self.draft_ms)

    @property
    def round_ms(self) -> float:
        """One round of drafting and verifying."""
        return self.draft_ms + self.verify_ms

    @property
    def break_even_accept_length(self) -> float:
        """Tokens a round must emit for speculation to cost nothing."""
        return self.round_ms / self.plain_ms


@dataclass(frozen=True)
class AllReduces:
    """The all-reduces of one verify step: how many, and microseconds each where that was measured."""

    per_verify: int
    us_each: float | None = None

    def __post_init__(self) -> None:
        _positive("per_verify", self.per_verify)
        if self.us_each is not None:
            _positive("us_each", self.us_each)


@dataclass(frozen=True)
class AllReduceBudget:
    """What an all-reduce of the verify step may cost, everything else unchanged.

    The plain step is held at its measured time: a path that also speeds plain decoding up raises the bar.

    Attributes:
        per_verify, us_now: as given.
        share_of_verify: part of the verify step that the all-reduces take; None where ``us_now`` is unknown.
        to_save_us: microseconds that each must lose for the target ratio; negative is slack.
        max_us: what each may cost at the target ratio. Negative: free ones would not be enough. None without
            ``us_now``.
        ratio_if_free: the ratio if they cost nothing, the ceiling of any all-reduce work; None without
        ``us_now``.
        plain_ceiling_us: what one can cost in plain decoding at most, if that step has as many and nothing
        else.
    """

    per_verify: int
    us_now: float | None
    share_of_verify: float | None
    to_save_us: float
    max_us: float | None
    ratio_if_free: float | None
    plain_ceiling_us: float


@dataclass(frozen=True)
class CostExplanation:
    """The cost model of one comparison.

    ``excess_ms`` is how much longer a round is than it may be at ``target_ratio`` (negative is slack), and
    ``max_verify_ms`` what the verify step may take there. ``measured_over_predicted`` near 1 means that the
    model explains the measurement; else time goes somewhere that it does not see (scheduling, sampling, an
    idle GPU).
    """

    times: StepTimes
    accept_length: float
    target_ratio: float
    predicted_ratio: float
    measured_ratio: float | None
    measured_over_predicted: float | None
    break_even_accept_length: float
    excess_ms: float
    max_verify_ms: float
    all_reduce: AllReduceBudget | None

    def sentences(self) -> tuple[str, ...]:
        """The explanation in words, one finding a sentence."""
        times, target = self.times, self.target_ratio
        lines = [
            f"A round of {times.draft_ms:.1f} ms draft and {times.verify_ms:.1f} ms verify costs "
            f"{self.break_even_accept_length:.2f} plain steps of {times.plain_ms:.2f} ms and emits "
            f"{self.accept_length:.2f} tokens: ratio {self.predicted_ratio:.3f} predicted"
            + ("." if self.measured_ratio is None else f", {self.measured_ratio:.3f} measured.")
        ]
        needed_length = self.break_even_accept_length * target
        if self.excess_ms > 0:
            lines.append(
                f"For a ratio of {target:g} it must emit {needed_length:.2f} tokens, or take "
                f"{self.excess_ms:.1f} ms less: verify in "
                + (f"{self.max_verify_ms:.1f} ms." if self.max_verify_ms > 0 else "no time at all.")
            )
        else:
            lines.append(
                f"A ratio of {target:g} needs {needed_length:.2f} tokens a round; "
                f"there is {-self.excess_ms:.1f} ms of slack."
            )
        if self.all_reduce is not None:
            lines += _all_reduce_sentences(self.all_reduce, target)
        return tuple(lines)


def explain(
    times: StepTimes,
    accept_length: float,
    *,
    measured_ratio: float | None = None,
    target_ratio: float = 1.0,
    all_reduces: AllReduces | None = None,
) -> CostExplanation:
    """Predict the ratio, and say what would have to change for ``target_ratio``.

    Args:
        times: milliseconds a step.
        accept_length: tokens a round emits, the target's own included (at least 1).
        measured_ratio: tokens per second with speculation / without.
        target_ratio: what must be reached; 1 is break-even.
        all_reduces: of one verify step; their time is part of ``times.verify_ms``.

    Raises:
        MisuseError: a length below 1, a ratio not above 0, all-reduces that take longer than their step.
    """
    if not accept_length >= 1:
        raise MisuseError("a round emits at least the target's own token", key="accept_length", value=accept_length)
    _positive("target_ratio", target_ratio)
    if measured_ratio is not None:
        _positive("measured_ratio", measured_ratio)
    predicted = accept_length * times.plain_ms / times.round_ms
    allowed_ms = accept_length * times.plain_ms / target_ratio
    excess_ms = times.round_ms - allowed_ms
    return CostExplanation(
        times=times,
        accept_length=accept_length,
        target_ratio=target_ratio,
        predicted_ratio=predicted,
        measured_ratio=measured_ratio,
        measured_over_predicted=None if measured_ratio is None else measured_ratio / predicted,
        break_even_accept_length=times.break_even_accept_length,
        excess_ms=excess_ms,
        max_verify_ms=allowed_ms - times.draft_ms,
        all_reduce=_budget(times, accept_length, excess_ms, all_reduces) if all_reduces else None,
    )


def implied_accept_length(spec_tok_per_s: float, round_ms: float) -> float:
    """The acceptance length behind a rate (per user), when the server did not report one."""
    return spec_tok_per_s * round_ms / 1000


def implied_round_ms(spec_tok_per_s: float, accept_length: float) -> float:
    """What a round takes in all, from the rate (per user) and the acceptance length."""
    return 1000 * accept_length / spec_tok_per_s


@dataclass(frozen=True)
class StepsPrediction:
    """What a chain of ``steps`` draft steps would give."""

    steps: int
    accept_length: float
    ratio: float


def predict_steps(
    position_rates: Sequence[float], *, plain_ms: float, draft_step_ms: float, verify_ms: float
) -> tuple[StepsPrediction, ...]:
    """Ratios for chains (topk 1) of 1 to ``len(position_rates)`` draft steps, from one run of the longest.

    A chain of s steps emits 1 + (sum of the first s rates) tokens a round, since position j counts only if
    all before it were accepted. The verify step is taken as equally long for each s, which holds while it is
    bound by reading the weights.

    Args:
        position_rates: share of rounds that accepted at least 1, 2, ... drafts; falling.
        plain_ms: one plain decode step.
        draft_step_ms: one step of the draft.
        verify_ms: one verify step.
    """
    pairs = zip([1.0, *position_rates], position_rates, strict=False)
    if any(not 0 <= later <= earlier for earlier, later in pairs):
        raise MisuseError(
            "must fall from position to position, inside 0 to 1", key="position_rates", value=position_rates
        )
    predictions = []
    for steps in range(1, len(position_rates) + 1):
        times = StepTimes(plain_ms, verify_ms, draft_step_ms * steps)
        length = 1 + sum(position_rates[:steps])
        predictions.append(StepsPrediction(steps, length, explain(times, length).predicted_ratio))
    return tuple(predictions)


def _budget(times: StepTimes, accept_length: float, excess_ms: float, all_reduces: AllReduces) -> AllReduceBudget:
    count, now_us = all_reduces.per_verify, all_reduces.us_each
    to_save_us = 1000 * excess_ms / count
    total_ms = None if now_us is None else count * now_us / 1000
    if total_ms is not None and total_ms >= times.verify_ms:
        raise MisuseError(
            f"{count} of {now_us:g} us take {total_ms:.1f} ms, no less than the verify step that holds them",
            key="all_reduces",
            expected=f"below {1000 * times.verify_ms / count:.0f} us each",
        )
    return AllReduceBudget(
        per_verify=count,
        us_now=now_us,
        share_of_verify=None if total_ms is None else total_ms / times.verify_ms,
        to_save_us=to_save_us,
        max_us=None if now_us is None else now_us - to_save_us,
        ratio_if_free=None if total_ms is None else accept_length * times.plain_ms / (times.round_ms - total_ms),
        plain_ceiling_us=1000 * times.plain_ms / count,
    )


def _all_reduce_sentences(budget: AllReduceBudget, target: float) -> list[str]:
    if budget.us_now is None or budget.max_us is None or budget.share_of_verify is None:
        verb = "must each get" if budget.to_save_us > 0 else "may each be"
        word = "faster" if budget.to_save_us > 0 else "slower"
        return [
            f"The {budget.per_verify} all-reduces of a verify step {verb} "
            f"{abs(budget.to_save_us):.0f} us {word} for a ratio of {target:g}."
        ]
    lines = [
        f"The {budget.per_verify} all-reduces of {budget.us_now:.0f} us take {budget.share_of_verify:.0%} "
        f"of the verify step; for a ratio of {target:g} each "
        + (
            f"may cost at most {budget.max_us:.0f} us."
            if budget.max_us > 0
            else "would have to cost less than nothing: the time is elsewhere."
        ),
        f"If they were free the ratio would be {budget.ratio_if_free:.2f}.",
    ]
    if budget.us_now > budget.plain_ceiling_us:
        plain_ms = budget.plain_ceiling_us * budget.per_verify / 1000
        lines.append(
            f"Plain decoding, with as many in {plain_ms:.1f} ms, pays at "
            f"most {budget.plain_ceiling_us:.0f} us each: it is the verify step's all-reduces that are slow."
        )
    return lines


def _positive(key: str, value: float) -> None:
    if not value > 0:
        raise MisuseError("must be above 0", key=key, value=value)
