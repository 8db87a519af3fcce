"""How wrong elements lie, in words: the pattern is half the diagnosis."""

from __future__ import annotations

import itertools

from sglgate.allreduce.messages import Failure

# A cause must account for nearly all wrong elements; chance agreement of small numbers reaches a few percent.
_EXPLAINS = 0.95


def explain(failure: Failure) -> str:
    """The cause that accounts for the wrong elements, or nothing.

    Missing ranks are named first: with two ranks "rank 1 missing" and "rank 0's own input" are the same
    numbers.
    """
    causes = sorted(
        (cause for cause, share in failure.explained.items() if share >= _EXPLAINS),
        key=lambda cause: (cause != "the previous call's answer", "missing" not in cause, cause),
    )
    missing = [cause for cause in causes if "missing" in cause]
    if len(missing) > 1 and causes[0] != "the previous call's answer":
        # Any single rank "explains" it: the data says nothing about which.
        return ""
    return causes[0] if causes else ""


def describe(failure: Failure) -> str:
    """Where the wrong elements lie: everywhere, one, a block, blocks at a stride, two blocks exchanged."""
    if failure.exchanged is not None:
        first, second, length = failure.exchanged
        return f"blocks of {length} at {first} and {second} hold each other's answer"
    if not failure.runs:
        return ""
    start, length = failure.runs[0]
    if failure.runs_total == 1:
        if failure.wrong == 1:
            return f"one element, {start}"
        if length >= 0.9 * failure.elements:
            return "the whole tensor"
        return f"one block of {length} at {start}" + _place(start, length, failure.elements)
    starts = [run[0] for run in failure.runs]
    strides = {after - before for before, after in itertools.pairwise(starts)}
    if len(strides) == 1:
        return f"{failure.runs_total} blocks of about {length} at a stride of {strides.pop()} from {start}"
    return f"{failure.runs_total} scattered blocks, the first of {length} at {start}"


def _place(start: int, length: int, elements: int) -> str:
    if start + length == elements:
        return ", the tail"
    return ", the head" if start == 0 else ""
