"""The corpus: whole logs, written and real, each with the answer it must get."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from sglgate.diagnosis import KNOWN_CAUSES, diagnose_file

CORPUS = Path(__file__).parent / "corpus"
EXPECTED = {
    f"{folder}/{name}": expected
    for folder in ("written", "real")
    for name, expected in tomllib.loads((CORPUS / folder / "expected.toml").read_text()).items()
}


def test_every_log_has_an_expected_answer_and_every_answer_a_log():
    assert sorted(str(path.relative_to(CORPUS).with_suffix("")) for path in CORPUS.glob("*/*.log")) == sorted(EXPECTED)


def test_every_cause_has_two_logs_and_the_culprit_is_not_always_rank_0():
    causes = [expected["cause"] for expected in EXPECTED.values()]
    assert {cause for cause in KNOWN_CAUSES if causes.count(cause) < 2} == set()
    assert sum(expected.get("facts", {}).get("rank", "TP0") != "TP0" for expected in EXPECTED.values()) >= 20


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_log_gets_its_answer(name):
    expected = EXPECTED[name]
    answer = diagnose_file(CORPUS / f"{name}.log", expected.get("context"))
    found = answer.to_json()
    for key in ("outcome", "phase", "cause", "confidence"):
        if key in expected:
            assert found[key] == expected[key], "\n".join(answer.summary_lines())
    for key, value in expected.get("facts", {}).items():
        assert answer.facts.get(key) == value, (key, answer.facts)
    for words in expected.get("remedy_says", ()):
        assert words in answer.remedy
    if "line" in expected:
        assert answer.evidence[0].line == expected["line"]
    if answer.cause not in ("none", "unknown"):
        assert answer.evidence
        assert answer.remedy
