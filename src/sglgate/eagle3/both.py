"""Ask both arms the same: the candidate's server first, then its baseline's, each alone on the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sglgate.config import Candidate
from sglgate.config.eagle3 import Eagle3Need
from sglgate.eagle3.answers import Comparison, compare
from sglgate.eagle3.arms import baseline_of, unequal_arms
from sglgate.eagle3.probes import Answer, Probe, ask_all, derived_probes, greedy_probes
from sglgate.launch import Server
from sglgate.launch.pool import ServerPool
from sglgate.load import PromptSet

#: What SGLang takes where it chooses the number of steps itself, at most; shorter runs lie inside its ends.
_LONGEST_DEFAULT_STEPS: Final = 5


@dataclass(frozen=True)
class PlainSide:
    """What a baseline's server said, and what it was asked beside the greedy answers."""

    log: Path
    info: Mapping[str, Any]
    steps: int
    derived: Sequence[Probe]
    heard: Mapping[str, Answer]


@dataclass(frozen=True)
class BothArms:
    """What differs in the resolved arguments, and in the answers, by kind of check."""

    differences: Mapping[str, tuple[Any, Any]]
    checks: Mapping[str, Comparison]
    logs: tuple[Path, ...]


def ask_both(
    pool: ServerPool,
    candidate: Candidate,
    need: Eagle3Need,
    prompts: Mapping[str, PromptSet],
    before: dict[str, PlainSide],
) -> BothArms:
    """Greedy answers of the candidate, the ends cut from them, then all of it again from the baseline.

    Args:
        pool: launches both servers.
        candidate, need: what speculates, and what is expected of it.
        prompts: by kind.
        before: baselines that were asked for other candidates. One that gave the same greedy answers as its candidate
            was asked ends that fit every candidate, so it is not launched again; it is added here.

    Raises:
        LaunchError: an arm did not come up, or died while it was asked.
    """
    baseline, server = baseline_of(candidate), pool.get(candidate)
    greedy = greedy_probes(need.answers, prompts, need.template)
    said = _asked(pool, server, greedy)
    asked_for = candidate.arguments.get("speculative-num-steps")
    steps = max(_LONGEST_DEFAULT_STEPS, asked_for if type(asked_for) is int else 0)
    key = f"{baseline.configuration} {need.template!r} {need.answers!r}"
    known = before.get(key)
    fits = known is not None and known.steps >= steps
    derived = list(known.derived) if known is not None and fits else derived_probes(greedy, said, steps)
    said |= _asked(pool, server, derived)
    if known is None or not fits:
        plain = pool.fresh(baseline)
        known = PlainSide(plain.log, plain.info, steps, derived, _asked(pool, plain, [*greedy, *derived]))
        if all(known.heard[probe.name].ids == said[probe.name].ids for probe in greedy):
            before[key] = known
    return BothArms(
        unequal_arms(known.info, server.info, need.may_differ),
        compare([*greedy, *derived], known.heard, said, need.answers.tie_nats),
        (known.log, server.log),
    )


def _asked(pool: ServerPool, server: Server, probes: list[Probe]) -> dict[str, Answer]:
    answers = ask_all(server.client, probes)
    if (error := pool.bury(server)) is not None:
        raise error
    return answers
