import math
from typing import Any

import pytest

from sglgate.allreduce import drift
from sglgate.allreduce.drift import Bound, DriftError, Said
from sglgate.evidence import Verdict


def said(*logprobs: float, greedy: tuple[int, ...] = (7, 8)) -> Said:
    tokens = tuple(range(10, 10 + len(logprobs)))
    return Said(tokens, logprobs, tuple({token: value} for token, value in zip(tokens, logprobs, strict=True)), greedy)


BASE = {"short": said(-1.0, -2.0), "long": said(-0.5, -0.25, -3.0)}
BOUND = Bound(mean=0.01, worst=0.05)


def moved(by: float, text: str = "long", position: int = 1) -> dict[str, Said]:
    logprobs = list(BASE[text].logprobs)
    logprobs[position] += by
    return {**BASE, text: said(*logprobs)}


def test_drift_is_the_mean_and_the_worst_over_all_tokens() -> None:
    found = drift.drift(BASE, moved(0.5))
    assert (found.mean, found.worst, found.where, found.tokens) == (pytest.approx(0.1), 0.5, ("long", 1), 5)


def test_the_bound_is_the_baselines_own_noise_times_the_factor() -> None:
    own = [drift.drift(BASE, moved(0.5)), drift.drift(BASE, moved(0.25))]
    assert Bound.of(own, factor=2) == Bound(mean=pytest.approx(0.2), worst=pytest.approx(1.0))


def test_a_baseline_that_repeats_itself_to_the_bit_still_allows_the_last_bit() -> None:
    bound = Bound.of([drift.drift(BASE, BASE)])
    assert (bound.mean, bound.worst) == (3 * drift.LEAST_MEAN, 3 * drift.LEAST_WORST)
    with pytest.raises(DriftError, match="not compared with itself"):
        Bound.of([])


def test_one_token_beyond_the_bound_fails_and_shows_both_distributions() -> None:
    found = drift.judge(BASE, moved(-0.06), BOUND, load="under load")
    assert found.verdict is Verdict.FAIL
    assert "under load: text 'long', token 2 drifts 0.0600 nats" in found.reason
    worst = found.detail["worst_at"]
    assert worst["baseline"]["top"] == {"11": -0.25}
    assert worst["candidate"]["top"] == {"11": pytest.approx(-0.31)}


def test_a_small_drift_of_every_token_fails_by_its_mean() -> None:
    every = {name: said(*(value - 0.02 for value in one.logprobs)) for name, one in BASE.items()}
    found = drift.judge(BASE, every, BOUND, load="batch 1")
    assert found.verdict is Verdict.FAIL
    assert "on average" in found.reason


def test_within_the_bound_passes() -> None:
    assert drift.judge(BASE, moved(0.02), BOUND, load="batch 1").verdict is Verdict.PASS


def test_nan_is_the_worst_drift_there_is() -> None:
    found = drift.judge(BASE, moved(math.nan), BOUND, load="batch 1")
    assert found.verdict is Verdict.FAIL
    assert found.detail["worst_nats"] == math.inf


@pytest.mark.parametrize("other", [{}, {"short": BASE["short"]}, {**BASE, "long": said(-0.5)}])
def test_other_texts_and_other_tokens_cannot_be_compared(other: dict[str, Said]) -> None:
    with pytest.raises(DriftError):
        drift.drift(BASE, other)


def test_a_greedy_answer_that_the_baseline_gives_every_time_must_be_given() -> None:
    other = {**BASE, "short": said(-1.0, -2.0, greedy=(7, 9))}
    assert drift.judge_greedy([BASE, BASE], BASE, load="batch 1").verdict is Verdict.PASS
    found = drift.judge_greedy([BASE, BASE], other, load="batch 1")
    assert found.verdict is Verdict.FAIL
    assert "text 'short': the greedy answer parts from the baseline's at token 2" in found.reason


def test_a_text_on_which_the_baseline_disagrees_with_itself_is_not_judged_but_named() -> None:
    other = {**BASE, "short": said(-1.0, -2.0, greedy=(7, 9))}
    found = drift.judge_greedy([BASE, other], other, load="batch 1")
    assert found.verdict is Verdict.PASS
    assert found.detail["baseline_disagrees_with_itself"] == ["short"]


def test_a_baseline_that_never_agrees_with_itself_judges_nothing() -> None:
    other = {name: Said(one.tokens, one.logprobs, one.top, (1,)) for name, one in BASE.items()}
    assert drift.judge_greedy([BASE, other], BASE, load="batch 1").verdict is Verdict.INCONCLUSIVE


def answer(**meta: Any) -> dict[str, Any]:
    return {"output_ids": [5], "meta_info": meta}


def test_sglangs_answer_is_read_without_the_first_token() -> None:
    found = Said.read(
        answer(
            input_token_logprobs=[[None, 1, None], [-0.5, 2, None]],
            input_top_logprobs=[None, [[-0.5, 2, None], [-1.5, 3, None]]],
        )
    )
    assert found == Said((2,), (-0.5,), ({2: -0.5, 3: -1.5},), (5,))


def test_an_answer_without_logprobs_cannot_be_read() -> None:
    with pytest.raises(DriftError, match="without input_token_logprobs"):
        Said.read(answer())
