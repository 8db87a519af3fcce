"""Ask both arms the same: the candidate's server first, then its baseline's, each alone on the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sglgate.config import Candidate
from sglgate.config.eagle3 import Eagle3Need
from sglgate.eagle3.answers import Comparison, compare
from sglgate.eagle3.arms import baseline_of, unequal_arms
from sglgate.eagle3.probes import Answer, Probe, ask_all, derived_probes, greedy_probes
from sglgate.launch import Server
from sglgate.launch.pool import ServerPool
from sglgate.load import PromptSet


@dataclass(frozen=True)
class BothArms:
    """What differs in the resolved arguments, and in the answers, by kind of check."""

    differences: Mapping[str, tuple[Any, Any]]
    checks: Mapping[str, Comparison]
    logs: tuple[Path, ...]


def ask_both(pool: ServerPool, candidate: Candidate, need: Eagle3Need, prompts: Mapping[str, PromptSet]) -> BothArms:
    """Greedy answers of the candidate, the ends cut from them, then all of it again from the baseline.

    Raises:
        LaunchError: an arm did not come up, or died while it was asked.
    """
    baseline, server = baseline_of(candidate), pool.get(candidate)
    greedy = greedy_probes(need.answers, prompts, need.template)
    said = _asked(pool, server, greedy)
    steps = candidate.arguments.get("speculative-num-steps")
    # Where SGLang chooses the number itself, a run of 5 + 1 tokens is its longest default.
    derived = derived_probes(greedy, said, steps if type(steps) is int else 5)
    said |= _asked(pool, server, derived)
    plain = pool.fresh(baseline)
    heard = _asked(pool, plain, [*greedy, *derived])
    return BothArms(
        unequal_arms(plain.info, server.info, need.may_differ),
        compare([*greedy, *derived], heard, said, need.answers.tie_nats),
        (plain.log, server.log),
    )


def _asked(pool: ServerPool, server: Server, probes: list[Probe]) -> dict[str, Answer]:
    answers = ask_all(server.client, probes)
    if (error := pool.bury(server)) is not None:
        raise error
    return answers
