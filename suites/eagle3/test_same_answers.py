"""Does speculation change what is said? Both arms get the same requests, and every token is both."""

from __future__ import annotations

import pytest

from fixtures.gate import Gate
from fixtures.lane import Lane
from sglgate.config import Candidate
from sglgate.config.eagle3 import Eagle3Need
from sglgate.eagle3.arms import baseline_of, in_words
from sglgate.eagle3.both import BothArms
from sglgate.eagle3.sampled import CPU_IS_GREEDY, compare_samples, draw_samples
from sglgate.evidence import Verdict
from sglgate.launch.pool import ServerPool

pytestmark = pytest.mark.relaunches


def test_equal_arms(both: BothArms, gate: Gate) -> None:
    """Nothing but speculation differs in what the two servers resolved, unless the candidate names it."""
    found = both.differences
    reason = in_words(found) + "; pin it in [arguments], or name it in may_differ" if found else ""
    gate.judge("resolved arguments that differ", len(found), 0, "equal", "arguments", reason=reason)


def test_greedy(both: BothArms, need: Eagle3Need, gate: Gate) -> None:
    """Token by token; a first difference within the tie tolerance of the target's own logprobs is reported only."""
    _judge(both, "greedy", gate, need)


def test_max_tokens_inside_a_run(both: BothArms, need: Eagle3Need, gate: Gate) -> None:
    """A run of accepted tokens is cut at the token that was asked for."""
    _judge(both, "length", gate, need)


def test_eos_inside_a_run(both: BothArms, need: Eagle3Need, gate: Gate) -> None:
    """Nothing follows the token that ends an answer, wherever in a run it falls."""
    _judge(both, "eos", gate, need)


def test_stop_strings(both: BothArms, need: Eagle3Need, gate: Gate) -> None:
    """A stop string ends both answers at the same place."""
    _judge(both, "stop", gate, need)


def test_logprobs(both: BothArms, need: Eagle3Need, gate: Gate) -> None:
    """One logprob for each token, and the same."""
    _judge(both, "logprobs", gate, need)


def test_json_constrained(both: BothArms, need: Eagle3Need, gate: Gate) -> None:
    """A schema holds under speculation."""
    _judge(both, "json", gate, need)


def test_abort_in_flight(both: BothArms, need: Eagle3Need, gate: Gate) -> None:
    """It ends by the abort, and the next answer is what it was."""
    _judge(both, "abort", gate, need)


def test_sampled_distribution(candidate: Candidate, lane: Lane, pool: ServerPool, need: Eagle3Need, gate: Gate) -> None:
    """At temperature 1 both arms draw from one distribution."""
    if not lane.profile.needs_gpu:
        verdict = Verdict.NOT_EXERCISED
        gate.judge("p of equal distributions", None, 0.001, "at_least", "", verdict=verdict, reason=CPU_IS_GREEDY)
    draws = []
    # The plain server still runs, if the answers were compared before.
    for arm in (baseline_of(candidate), candidate):
        server = pool.get(arm)
        gate.show_log(server.log)
        draws.append(draw_samples(server.client, need.template.replace("{prompt}", "Name a fruit.")))
    p, n = compare_samples(*draws)
    gate.judge("p of equal distributions", p, 0.001, "at_least", "", n=n)


def _judge(both: BothArms, kind: str, gate: Gate, need: Eagle3Need) -> None:
    check = both.checks[kind]
    shown = [*check.problems[:3], *(f"tie: {tie}" for tie in check.ties)]
    gate.judge(
        "answers that differ",
        len(check.problems),
        0,
        "equal",
        "answers",
        n=check.probes,
        reason="; ".join(shown),
        detail={"tokens": check.tokens, "ties": [str(t) for t in check.ties], "tie_nats": need.answers.tie_nats},
    )
