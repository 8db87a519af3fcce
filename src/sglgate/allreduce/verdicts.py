"""Answers in, findings out. Pure: what the ranks said decides, and one wrong element is a failure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sglgate.allreduce import layout
from sglgate.allreduce.messages import ExactAnswer, Failure, Served
from sglgate.allreduce.paths import PATHS, Claim, Path, Refusal
from sglgate.allreduce.sizes import Shape, show_bytes, size_bytes
from sglgate.evidence import Verdict

_SHOWN = 12


@dataclass(frozen=True)
class Finding:
    """A verdict, one sentence why, and what a reader needs to believe it."""

    verdict: Verdict
    reason: str
    detail: dict[str, Any] = field(default_factory=dict)


def judge_engaged(
    path: Path, claim: Claim | Refusal, answers: Sequence[Sequence[Served]], log_lines: Sequence[str] = ()
) -> Finding:
    """Whether the path served every size that it claims, on every rank, by its leaf *and* by its kernel.

    Args:
        answers: by rank, one profiled call per shape (``World.engaged``).
        log_lines: what SGLang said when it built the groups; its refusal becomes the reason.
    """
    if not path.in_worker:
        reason = f"{path.name} cannot be reached outside a server; its engagement is judged from a live one"
        return Finding(Verdict.NOT_EXERCISED, reason)
    said = path.refused(log_lines)
    if isinstance(claim, Refusal):
        return Finding(Verdict.NOT_EXERCISED, claim.reason, {"log": said})
    table = [_served_row(path, claim, calls) for calls in zip(*answers, strict=True)]
    detail = {"served": table, "log": said}
    claimed = [row for row in table if row["claimed"]]
    if not claimed:
        return Finding(Verdict.NOT_EXERCISED, f"no size that was tried is one that {path.name} claims", detail)
    for row in claimed:
        if row["by"] != [path.name]:
            why = f"; SGLang said: {said[0]}" if said else "; SGLang gave no reason in its log"
            reason = f"{_label(row)} was served by {_list(row['by'])}, not by {path.name}{why}"
            return Finding(Verdict.NOT_EXERCISED, reason, detail)
        if not row["kernel_seen"]:
            reason = f"{_label(row)} went to {path.name}, but no kernel of it ran on every rank"
            return Finding(Verdict.NOT_EXERCISED, reason, detail)
    beyond = [row for row in table if not row["claimed"] and path.name in row["by"]]
    if beyond:
        # The table of claims is then wrong, and with it every size that was tested because of it.
        return Finding(Verdict.FAIL, f"{path.name} served {_label(beyond[0])}, which it does not claim", detail)
    reason = f"{path.name} served all {len(claimed)} claimed sizes on {len(answers)} ranks"
    return Finding(Verdict.PASS, reason, detail)


def judge_declined(path: Path, log_lines: Sequence[str]) -> Finding:
    """Whether SGLang said that it will not use a path which it must refuse. One that goes without a word is not judged
    here: that another path served every size shows it."""
    said = path.refused(log_lines)
    if said:
        return Finding(Verdict.PASS, said[0], {"log": said})
    return Finding(Verdict.FAIL, f"SGLang said nothing against {path.name}, which must be refused here", {"log": []})


def _served_row(path: Path, claim: Claim, calls: Sequence[Served]) -> dict[str, Any]:
    first = calls[0]
    return {
        "dtype": first.dtype,
        "shape": list(first.shape),
        "size_bytes": size_bytes(first.shape, first.dtype),
        "mode": first.mode,
        "claimed": claim.covers(first.shape, first.dtype),
        "by": sorted({leaf for call in calls for leaf in call.leaves}),
        "kernel_seen": all(path.ran(call.kernels) for call in calls),
        "kernels": sorted({name for call in calls for name in call.kernels if _is_reduction(name)}),
    }


def _is_reduction(name: str) -> bool:
    return any(known.ran([name]) for known in PATHS.values())


def judge_exact(
    path: Path,
    claim: Claim | Refusal,
    cases: Sequence[Mapping[str, Any]],
    answers: Sequence[ExactAnswer],
) -> Finding:
    """PASS when every call on every rank was right to the last bit, and the path served its share of them."""
    failures = [failure for answer in answers for failure in answer.failures]
    checked = sum(answer.checked for answer in answers)
    detail: dict[str, Any] = {"calls_checked": checked, "cases": len(cases), "ranks": len(answers)}
    if failures:
        worst = min(failures, key=_order)
        detail |= {"failures": len(failures), "shown": [show(path, failure) for failure in failures[:_SHOWN]]}
        return Finding(Verdict.FAIL, show(path, worst), detail)
    if different := _differing(cases, answers):
        detail["ranks_differ"] = different[:_SHOWN]
        return Finding(Verdict.FAIL, f"{path.name}: {different[0]}", detail)
    by_path, elsewhere = _coverage(path, claim, cases, answers)
    detail |= {"served_by_path": by_path, "claimed_but_served_elsewhere": elsewhere[:_SHOWN]}
    if elsewhere:
        reason = f"{elsewhere[0]}; what was exact is another path"
        return Finding(Verdict.NOT_EXERCISED, reason, detail)
    if not by_path:
        return Finding(Verdict.NOT_EXERCISED, f"{path.name} served none of the {len(cases)} cases", detail)
    reason = f"{checked} calls exact on {len(answers)} ranks, {by_path} cases of them served by {path.name}"
    return Finding(Verdict.PASS, reason, detail)


def show(path: Path, failure: Failure) -> str:
    """One failure in one line: path, size, dtype, rank, first wrong index, got, wanted, and how they lie."""
    what = [f"{path.name} {failure.kind.replace('_', ' ')}: {_of(failure.shape, failure.dtype)}"]
    what.append(f"rank {failure.rank}, {failure.family}, {_mode(failure)}")
    if failure.kind == "wrong_elements":
        what.append(f"{failure.wrong} of {failure.elements} wrong")
        what.append(
            f"first at index {failure.first_index}: got {failure.got} ({failure.got_bits}), "
            f"wanted {failure.wanted} ({failure.wanted_bits})"
        )
        what.append(layout.describe(failure))
        if cause := layout.explain(failure):
            what.append(f"as if: {cause}")
    elif failure.kind == "input_mutated":
        what.append(f"{failure.wrong} elements changed, the first at index {failure.first_index}")
    elif failure.kind == "guard_overwritten":
        what.append(f"written outside the tensor at index {', '.join(map(str, failure.offsets))}")
    return "; ".join(part for part in what if part)


def _mode(failure: Failure) -> str:
    if failure.replay is not None:
        return f"{failure.mode} replay {failure.replay}"
    return f"{failure.mode} ({failure.group})" if failure.group else failure.mode


def _order(failure: Failure) -> tuple[int, int]:
    # A wrong answer says more than a broken guard, and the first case more than a later one.
    return (failure.kind != "wrong_elements", failure.case)


def _differing(cases: Sequence[Mapping[str, Any]], answers: Sequence[ExactAnswer]) -> list[str]:
    digests: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for rank, answer in enumerate(answers):
        for number, digest in answer.digests.items():
            digests[number][digest].append(rank)
    found = []
    for number, ranks in sorted(digests.items()):
        if len(ranks) > 1:
            odd = min(ranks.values(), key=len)
            case = cases[number]
            found.append(
                f"ranks differ: {_of(tuple(case['shape']), case['dtype'])}, random data: rank(s) "
                f"{', '.join(map(str, odd))} hold other bits than the rest"
            )
    return found


def _coverage(
    path: Path, claim: Claim | Refusal, cases: Sequence[Mapping[str, Any]], answers: Sequence[ExactAnswer]
) -> tuple[int, list[str]]:
    served, elsewhere = 0, []
    for number, case in enumerate(cases):
        shape, dtype = tuple(case["shape"]), case["dtype"]
        by = sorted({leaf for answer in answers for leaf in answer.served[number]})
        if path.name in by:
            served += 1
        elif isinstance(claim, Claim) and claim.covers(shape, dtype):
            elsewhere.append(f"{_of(shape, dtype)} ({case['mode']}) was served by {_list(by)}, not {path.name}")
    return served, elsewhere


def _label(row: Mapping[str, Any]) -> str:
    return _of(tuple(row["shape"]), row["dtype"])


def _of(shape: Shape, dtype: str) -> str:
    return f"{'x'.join(map(str, shape))} {dtype} ({show_bytes(size_bytes(shape, dtype))})"


def _list(names: Sequence[str]) -> str:
    return " and ".join(names) if names else "nothing that is known"
