"""What a candidate's server resolved differently from the one that it is compared with, or was made from."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import Any

from sglgate.resolved import Difference, differing, does_nothing, resolved
from sglgate.run import RunInfo


@dataclass(frozen=True)
class Pair:
    """Two servers of one run; in each difference ``old`` is of ``base`` and ``new`` of ``candidate``."""

    base: str
    candidate: str
    differences: tuple[Difference, ...]


def argument_pairs(info: RunInfo) -> list[Pair]:
    """Each derived server (``NAME--plain`` and such) against its candidate, each candidate against its parent."""
    first = {str(one.get("candidate")): one for one in reversed(info.launches) if one.get("resolved")}
    pairs = [(name, owner) for name in first if (owner := name.rpartition("--")[0]) in first]
    parents = [(info.candidates.get(name, {}).get("extends"), name) for name in first]
    pairs += [(parent, name) for parent, name in parents if parent in first]
    return [Pair(base, name, tuple(_differences(first[base], first[name]))) for base, name in dict.fromkeys(pairs)]


def _differences(base: dict[str, Any], candidate: dict[str, Any]) -> list[Difference]:
    asked = [_asked(launch) for launch in (base, candidate)]
    found = [one for one in differing(resolved(base), resolved(candidate)) if not does_nothing(one)]
    return [
        replace(one, note="asked for" if asked[0].get(one.name) != asked[1].get(one.name) else "SGLang's own choice")
        for one in found
    ]


def _asked(launch: dict[str, Any]) -> dict[str, str]:
    """Option -> its text, of the command line that started the server."""
    try:
        words = shlex.split(str(launch.get("command", "")))
    except ValueError:  # redacted in the middle of a quotation
        return {}
    options: dict[str, str] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name = word[2:].replace("-", "_")
            options[name] = ""
        elif name:
            options[name] += f" {word}"
    return options
