"""Does the model say the same as with the baseline's all-reduce, alone and under load?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixtures.gate import Gate
from sglgate.allreduce.answers import LOADS, collect, read_texts
from sglgate.allreduce.drift import Bound, drift, judge, judge_greedy
from sglgate.allreduce.question import baseline_of
from sglgate.allreduce.systematic import judge_systematic
from sglgate.config import Candidate
from sglgate.launch import Server
from sglgate.launch.pool import ServerPool

TEXTS = Path(__file__).with_name("texts.toml")
ANSWER_TOKENS = 16
DEADLINE_S = 300


@pytest.mark.relaunches
def test_says_the_same(
    candidate: Candidate,
    pool: ServerPool,
    gate: Gate,
    said_before: dict[str, list[tuple[Path, dict[str, Any]]]],
) -> None:
    """Teacher-forced logprobs of fixed texts within the baseline's own drift, and no part of it in common to both
    loads; greedy answers the baseline's.
    """
    texts = read_texts(TEXTS)

    def said(server: Server) -> tuple[Path, dict[str, Any]]:
        answers = {
            load: collect(server.client, texts, load, answer_tokens=ANSWER_TOKENS, deadline_s=DEADLINE_S)
            for load in LOADS
        }
        return server.log, answers

    baseline = baseline_of(candidate)
    log, judged = said(pool.get(candidate))
    gate.show_log(log)
    if baseline.configuration not in said_before:
        said_before[baseline.configuration] = [said(pool.fresh(baseline)) for _ in range(2)]
    for log, _ in said_before[baseline.configuration]:
        gate.show_log(log)
    (_, first), (_, again) = said_before[baseline.configuration]
    alone, loaded = LOADS
    bound = Bound.of([drift(first[alone], first[loaded]), *(drift(first[load], again[load]) for load in LOADS)])
    for load in LOADS:
        found = judge(first[load], judged[load], bound, load=load)
        gate.judge(
            f"worst drift of a token, {load}",
            found.detail["worst_nats"],
            bound.worst,
            "at_most",
            "nats",
            verdict=found.verdict,
            reason=found.reason,
            n=found.detail["tokens"],
            detail=found.detail,
        )
        greedy = judge_greedy([first[load], again[load]], judged[load], load=load)
        gate.judge(
            f"greedy answers of the baseline that the candidate gives, {load}",
            sum(judged[load][text].greedy == first[load][text].greedy for text in greedy.detail["judged"]),
            len(greedy.detail["judged"]),
            "equal",
            "answers",
            verdict=greedy.verdict,
            reason=greedy.reason,
            detail=greedy.detail,
        )
    systematic = judge_systematic(first, judged)
    gate.judge(
        "systematic drift, of both loads",
        systematic.detail["rms_nats"],
        systematic.detail["bound_nats"],
        "at_most",
        "nats",
        verdict=systematic.verdict,
        reason=systematic.reason,
        n=systematic.detail["tokens"],
        interval=systematic.detail["interval_nats"],
        detail=systematic.detail,
    )
