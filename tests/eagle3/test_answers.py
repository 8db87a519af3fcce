"""The first difference decides: a tie by the target's own logprobs is reported, anything else is red."""

from __future__ import annotations

import pytest

from sglgate.eagle3.answers import compare, first_divergence
from sglgate.eagle3.probes import Answer, Probe

TOP = tuple(((token, -0.1), (token + 100, -0.2), (token + 200, -3.0)) for token in (1, 2, 3))
BASE = Answer(ids=(1, 2, 3), finish={"type": "length", "length": 3}, logprobs=(-0.1,) * 3, top=TOP)


def answer(*ids, **changes):
    return Answer(**{"ids": ids, "finish": BASE.finish, "logprobs": (-0.1,) * len(ids), **changes})


def test_equal_answers_do_not_diverge():
    assert first_divergence("p", BASE, answer(1, 2, 3), 0.15) is None


@pytest.mark.parametrize(
    ("ids", "index", "gap", "tie"),
    [
        ((1, 102, 9), 1, pytest.approx(0.1), True),
        ((1, 202, 3), 1, pytest.approx(2.9), False),
        ((1, 7, 3), 1, None, False),
        ((1, 2), 2, None, False),
        ((1, 2, 3, 4), 3, None, False),
    ],
)
def test_the_first_difference_is_judged_by_the_targets_logprobs(ids, index, gap, tie):
    found = first_divergence("p", BASE, answer(*ids), 0.15)
    assert (found.index, found.gap_nats, found.is_tie) == (index, gap, tie)


def problems(kind, candidate, baseline=BASE, tokens=3):
    probe = Probe("p", kind, "text", tokens)
    return compare([probe], {"p": baseline}, {"p": candidate}, 0.15)[kind].problems


def test_a_tie_is_reported_and_not_red():
    found = compare([Probe("p", "greedy", "text", 3)], {"p": BASE}, {"p": answer(1, 102, 9)}, 0.15)["greedy"]
    assert found.problems == ()
    assert [d.index for d in found.ties] == [1]


def test_a_probe_cut_from_an_answer_with_a_tie_proves_nothing():
    probes = [Probe("p", "greedy", "text", 3), Probe("q", "stop", "text", 3, parent="p")]
    same = {"p": answer(1, 102, 9), "q": BASE}
    found = compare(probes, {"p": BASE, "q": BASE}, same, 0.15)["stop"]
    assert "nothing was compared" in found.problems[0]


@pytest.mark.parametrize(
    ("kind", "candidate", "says"),
    [
        ("greedy", answer(1, 7, 3), "token 1 is 7, not 2"),
        ("length", answer(1, 2, 3, 4), "token 3 is 4, not None"),
        ("eos", answer(1, 2, 3, finish={"type": "stop", "matched": 3}), "ended with"),
        ("logprobs", answer(1, 2, 3, logprobs=(-0.1, -0.9, -0.1)), "logprob of token 1"),
        ("logprobs", answer(1, 2, 3, logprobs=()), "0 logprobs for 3 tokens"),
        ("json", answer(1, 2, 3, text='{"ok": tr'), "constrained to JSON"),
        ("abort", answer(1, 2, 3), "not by the abort"),
        ("abort", answer(1, finish={"type": "abort"}, after="(5,)"), "the answer after it changed"),
        ("stop", Answer(error="no answer"), "the candidate did not answer"),
    ],
)
def test_every_check_turns_red(kind, candidate, says):
    assert any(says in problem for problem in problems(kind, candidate)), problems(kind, candidate)


def test_an_answer_that_was_never_asked_for_is_a_problem():
    assert "not asked" in compare([Probe("p", "stop", "t", 3)], {"p": BASE}, {}, 0.15)["stop"].problems[0]


@pytest.mark.parametrize("sampling", [{"stop_token_ids": [3]}, {"stop": ["x"]}])
def test_a_stop_that_the_baseline_ran_past_tried_nothing(sampling):
    probe = Probe("p", "eos", "text", 3, sampling)
    assert "nothing was tried" in compare([probe], {"p": BASE}, {"p": BASE}, 0.15)["eos"].problems[0]
