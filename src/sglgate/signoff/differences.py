"""What differs between the two sides beside the results: packages, resolved arguments, the question itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sglgate.signoff.side import Side
from sglgate.stack import HEADLINE_PACKAGES

_ABSENT: Final = "absent"
#: Differs with every launch, or is a result and no argument.
_NOT_ARGUMENTS: Final = frozenset(
    {
        "host", "port", "nccl_port", "dist_init_addr", "random_seed", "startup_time", "launch_command", "version",
        "internal_states", "status", "kv_events", "model_path", "tokenizer_path", "served_model_name", "frontend",
        "max_total_num_tokens", "max_req_input_len", "speculative_draft_model_path", "weight_version",
        "smg_http_sidecar_port", "engine_info_bootstrap_port", "disaggregation_bootstrap_port",
        "encoder_bootstrap_port",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """One name with both its values; ``note`` says what kind of difference it is."""

    name: str
    old: str
    new: str
    note: str = ""


def packages(old: Side, new: Side) -> list[Difference]:
    """Python, libc, torch's build and every package, those that matter most first."""
    sides = [
        {
            "python": side.info.stack.get("python", _ABSENT),
            "libc": side.info.stack.get("libc", _ABSENT),
            **{f"torch {key}": str(value) for key, value in side.info.stack.get("torch_build", {}).items()},
            **side.info.stack.get("packages", {}),
        }
        for side in (old, new)
    ]
    first = [*HEADLINE_PACKAGES, "torch cuda", "python"]
    found = _differing(*sides)
    return sorted(found, key=lambda d: (first.index(d.name) if d.name in first else len(first), d.name))


def arguments(old: Side, new: Side, candidate: str) -> list[Difference]:
    """The server's resolved arguments.

    One that neither side asked for is a default that changed; one that both asked for alike, SGLang overruled.
    """
    a, b = old.launch(candidate), new.launch(candidate)
    if a is None or b is None:
        return []
    resolved = [{k: v for k, v in launch.get("resolved", {}).items() if k not in _NOT_ARGUMENTS} for launch in (a, b)]
    asked = [
        # false leaves the flag out: nothing was asked.
        {n.replace("-", "_"): v for n, v in side.info.candidates[candidate]["arguments"].items() if v is not False}
        for side in (old, new)
    ]
    found = []
    for one in _differing(*resolved):
        if one.name not in resolved[0] or one.name not in resolved[1]:
            # An argument that one release lacks, at the value that does nothing, changes nothing.
            if (one.new if one.old == _ABSENT else one.old) in ("None", "False", "0", "[]", "{}", "''"):
                continue
            note = "new argument" if one.old == _ABSENT else "argument removed"
        else:
            before, after = (names.get(one.name) for names in asked)
            note = "asked for" if before != after else "default changed" if before is None else "asked alike, overruled"
        found.append(Difference(one.name, one.old, one.new, note))
    return found


def question(old: Side, new: Side) -> list[Difference]:
    """What must be the same: the client, and each candidate's model, arguments, environment and expectations."""
    found = [
        Difference(f"{name} {key}", one.old, one.new, "not the same question")
        for name in old.info.candidates
        if name in new.info.candidates
        for key in ("model", "arguments", "environment", "expect")
        for one in _differing({key: old.info.candidates[name].get(key)}, {key: new.info.candidates[name].get(key)})
    ]
    if old.info.sglgate != new.info.sglgate:
        found.append(Difference("sglgate", old.info.sglgate, new.info.sglgate, "not the same client"))
    return found


def machines(old: Side, new: Side) -> list[Difference]:
    """The two machines."""
    return _differing(old.info.node, new.info.node)


def _differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Difference]:
    return [
        Difference(name, _text(old, name), _text(new, name))
        for name in dict.fromkeys([*old, *new])
        if name not in old or name not in new or old[name] != new[name]
    ]


def _text(data: Mapping[str, Any], name: str) -> str:
    if name not in data:
        return _ABSENT
    return data[name] if isinstance(data[name], str) and data[name] else repr(data[name])
