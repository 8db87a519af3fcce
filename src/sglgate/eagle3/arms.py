"""Two arms from one candidate: the baseline derived from it, and what else differs between the two servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sglgate.config import Candidate
from sglgate.errors import MisuseError, SglgateError

PREFIX: Final = "speculative-"
#: What differs between any two launches, or follows from the name of the arm and from nothing else.
_OF_A_LAUNCH: Final = frozenset(
    {"port", "nccl_port", "random_seed", "launch_command", "startup_time", "status", "internal_states", "watermark_key"}
    | {"disaggregation_bootstrap_port", "engine_info_bootstrap_port", "ready_at", "last_receive_tstamp"}
)
#: Of the scheduler's state these are limits that it set itself, so they belong to the arm.
_SCHEDULER_LIMITS: Final = ("effective_max_running_requests_per_dp",)


class UnequalArmsError(SglgateError):
    """The arms differ in more than speculation: their ratio would not be that of speculation."""

    def __init__(self, differences: Mapping[str, tuple[object, object]]) -> None:
        self.differences = dict(differences)
        super().__init__(
            "the arms are not equal: " + in_words(differences) + "; pin it in [arguments], or name it in may_differ"
        )


def is_speculative(candidate: Candidate) -> bool:
    """Whether its server speculates at all."""
    return any(key.startswith(PREFIX) for key in candidate.arguments)


def baseline_of(candidate: Candidate) -> Candidate:
    """The same candidate without its ``speculative-`` arguments.

    Raises:
        MisuseError: it has none, so that there is nothing to compare.
    """
    if not is_speculative(candidate):
        raise MisuseError(
            "does not speculate, so it has no baseline",
            file=candidate.file,
            key="arguments",
            expected=f"at least one {PREFIX}* argument, or no [expect.eagle3]",
        )
    arguments = {key: value for key, value in candidate.arguments.items() if not key.startswith(PREFIX)}
    return candidate.model_copy(update={"name": f"{candidate.name}--plain", "arguments": arguments})


def unequal_arms(
    baseline: Mapping[str, Any], candidate: Mapping[str, Any], may_differ: Mapping[str, str] | None = None
) -> dict[str, tuple[Any, Any]]:
    """What the two servers resolved differently and nobody named: name -> (baseline's, candidate's).

    SGLang 0.5.23 sets ``max_running_requests`` to 48 under speculation and may change the overlap schedule, the
    page size, the memory fraction and the graph sizes (``srt/arg_groups/speculative_hook.py``). Nothing is taken as
    harmless: an argument that this release does not know yet counts as well, and one that only one server states.

    Args:
        baseline, candidate: ``/server_info`` of both.
        may_differ: names that the candidate file accepts, with its reasons.
    """
    left, right = _flat(baseline), _flat(candidate)
    accepted = {name.replace("-", "_") for name in may_differ or {}}
    found = {}
    for name in sorted(left.keys() | right.keys()):
        root = name.partition(".")[0]
        if root.lstrip("_").startswith("speculative") or root in _OF_A_LAUNCH or {name, root} & accepted:
            continue
        values = left.get(name, "(not stated)"), right.get(name, "(not stated)")
        if values[0] != values[1]:
            found[name] = values
    return found


def require_equal_arms(
    baseline: Mapping[str, Any], candidate: Mapping[str, Any], may_differ: Mapping[str, str] | None = None
) -> None:
    """Raise UnequalArmsError where :func:`unequal_arms` finds anything."""
    if differences := unequal_arms(baseline, candidate, may_differ):
        raise UnequalArmsError(differences)


def _flat(info: Mapping[str, Any]) -> dict[str, Any]:
    """Resolved arguments, nested ones by dotted name so that a difference is named where it is."""
    flat: dict[str, Any] = {}

    def walk(prefix: str, value: Any) -> None:
        if isinstance(value, Mapping) and value and prefix not in _OF_A_LAUNCH:
            for key, inner in value.items():
                walk(f"{prefix}.{key}", inner)
        else:
            flat[prefix] = value

    for key, value in info.items():
        walk(str(key), value)
    states = info.get("internal_states") or [{}]
    for name in _SCHEDULER_LIMITS:
        values = [state[name] for state in states if name in state]
        if values:
            flat[name] = values
    return flat


def in_words(differences: Mapping[str, tuple[Any, Any]]) -> str:
    """Each difference with both values, for a person."""
    parts = [f"{name}: {a!r} without speculation, {b!r} with it" for name, (a, b) in differences.items()]
    return "; ".join(parts) or "none"
