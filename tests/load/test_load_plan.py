"""Arrivals that repeat, and plans that are refused."""

import statistics

import pytest

from sglgate.errors import MisuseError
from sglgate.load import ClosedLoop, LoadPlan, OpenLoop, PromptSet

PROMPTS = PromptSet.of_texts("test", ("a",))


def test_poisson_arrivals_have_the_rate_and_the_spread_of_poisson():
    due = OpenLoop(rate_per_s=5, requests=1, seed=1).due_s(4000)
    gaps = [later - earlier for earlier, later in zip([0.0, *due], due, strict=False)]
    assert statistics.mean(gaps) == pytest.approx(0.2, rel=0.05)
    assert statistics.stdev(gaps) == pytest.approx(0.2, rel=0.07)


def test_a_seed_fixes_every_arrival():
    assert OpenLoop(5, 1, seed=7).due_s(50) == OpenLoop(5, 1, seed=7).due_s(50)
    assert OpenLoop(5, 1, seed=7).due_s(50) != OpenLoop(5, 1, seed=8).due_s(50)


def test_warmup_defaults_to_one_request_a_user_or_a_tenth():
    assert LoadPlan("http://h", PROMPTS, ClosedLoop(4, 8), 16).warmup == 4
    assert LoadPlan("http://h", PROMPTS, OpenLoop(1.0, 25), 16).warmup == 3
    assert LoadPlan("http://h", PROMPTS, OpenLoop(1.0, 25), 16, warmup_requests=0).warmup == 0


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (lambda: ClosedLoop(0, 4), "concurrency"),
        (lambda: ClosedLoop(8, 7), "requests"),
        (lambda: OpenLoop(0.0, 4), "rate_per_s"),
        (lambda: OpenLoop(float("nan"), 4), "rate_per_s"),
        (lambda: OpenLoop(1.0, 0), "requests"),
        (lambda: LoadPlan("http://h", PROMPTS, ClosedLoop(1, 1), 1), "output_tokens"),
        (lambda: LoadPlan("http://h", PROMPTS, ClosedLoop(1, 1), 8, warmup_requests=-1), "warmup_requests"),
        (lambda: LoadPlan("http://h", PROMPTS, ClosedLoop(1, 1), 8, template="no slot"), "template"),
    ],
)
def test_a_plan_that_cannot_be_meant_is_misuse(make, key):
    with pytest.raises(MisuseError, match=key):
        make()
