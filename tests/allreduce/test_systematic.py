"""The systematic drift, on answers made of known parts: rounding that differs by load, and a fault that does not."""

import random

import pytest

from sglgate.allreduce.drift import LEAST_MEAN, Answers, Bound, DriftError, Said, drift, judge
from sglgate.allreduce.systematic import judge_systematic
from sglgate.evidence import Verdict

LOADS = ("batch 1", "under load")
TOKENS = 700


def served(rounding: float, fault: float = 0.0, *, seed: int, tokens: int = TOKENS) -> dict[str, Answers]:
    """Answers under both loads: one truth, rounding drawn anew by load, and one fault in both."""
    truth, wrong = random.Random("truth"), random.Random("fault")
    exact = [-3 * truth.random() + fault * wrong.gauss(0, 1) for _ in range(tokens)]
    draws = random.Random(seed)
    return {
        load: {"text": Said(tuple(range(tokens)), tuple(x + draws.gauss(0, rounding) for x in exact), (), ())}
        for load in LOADS
    }


def test_another_rounding_passes_and_a_fault_as_small_as_the_rounding_fails() -> None:
    baseline = served(0.035, seed=1)
    honest, broken = served(0.035, seed=2), served(0.035, 0.05, seed=3)
    assert judge_systematic(baseline, honest).verdict is Verdict.PASS
    found = judge_systematic(baseline, broken)
    assert found.verdict is Verdict.FAIL
    assert found.detail["rms_nats"] == pytest.approx(0.05, abs=0.01)
    # The mean drift does not see it.
    bound = Bound.of([drift(baseline[LOADS[0]], baseline[LOADS[1]])])
    assert judge(baseline[LOADS[0]], broken[LOADS[0]], bound, load=LOADS[0]).verdict is Verdict.PASS


def test_honest_servers_are_seldom_called_wrong() -> None:
    red = [judge_systematic(served(0.035, seed=2 * n), served(0.035, seed=2 * n + 1)).verdict for n in range(200)]
    assert red.count(Verdict.FAIL) == 0
    assert red.count(Verdict.PASS) >= 190


def test_too_little_text_is_not_green() -> None:
    baseline, broken = served(0.035, seed=1, tokens=40), served(0.035, 0.03, seed=3, tokens=40)
    assert judge_systematic(baseline, broken).verdict is Verdict.INCONCLUSIVE
    one_chunk = served(0.035, seed=1, tokens=8), served(0.035, seed=2, tokens=8)
    assert judge_systematic(*one_chunk).verdict is Verdict.INCONCLUSIVE


def test_the_same_answers_pass_though_the_baseline_has_no_noise() -> None:
    silent = served(0.0, seed=1)
    found = judge_systematic(silent, silent)
    assert (found.verdict, found.detail["bound_nats"]) == (Verdict.PASS, LEAST_MEAN)


def test_nan_fails() -> None:
    broken = served(float("nan"), seed=3)
    assert judge_systematic(served(0.03, seed=1), broken).verdict is Verdict.FAIL


@pytest.mark.parametrize("loads", [("batch 1",), ("batch 1", "other")])
def test_other_loads_cannot_be_compared(loads: tuple[str, ...]) -> None:
    answers = served(0.03, seed=1)[LOADS[0]]
    with pytest.raises(DriftError, match="two loads"):
        judge_systematic(served(0.03, seed=1), dict.fromkeys(loads, answers))


def test_other_tokens_cannot_be_compared() -> None:
    with pytest.raises(DriftError, match="two tokenizers"):
        judge_systematic(served(0.03, seed=1), served(0.03, seed=1, tokens=TOKENS - 1))
