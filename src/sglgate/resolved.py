"""What two servers resolved their arguments to, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

ABSENT: Final = "absent"
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
_NOTHING: Final = ("None", "False", "0", "[]", "{}", "''")


@dataclass(frozen=True)
class Difference:
    """One name with both its values; ``note`` says what kind of difference it is."""

    name: str
    old: str
    new: str
    note: str = ""


def resolved(launch: Mapping[str, Any]) -> dict[str, Any]:
    """The resolved arguments of a launch of ``run.json``, without what differs between any two launches."""
    return {name: value for name, value in launch.get("resolved", {}).items() if name not in _NOT_ARGUMENTS}


def does_nothing(one: Difference) -> bool:
    """Whether one side lacks it and the other has it at a value that changes nothing."""
    return ABSENT in (one.old, one.new) and (one.new if one.old == ABSENT else one.old) in _NOTHING


def differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Difference]:
    """Every name whose values differ, or that one side lacks."""
    return [
        Difference(name, _text(old, name), _text(new, name))
        for name in dict.fromkeys([*old, *new])
        if name not in old or name not in new or old[name] != new[name]
    ]


def _text(data: Mapping[str, Any], name: str) -> str:
    if name not in data:
        return ABSENT
    return data[name] if isinstance(data[name], str) and data[name] else repr(data[name])
