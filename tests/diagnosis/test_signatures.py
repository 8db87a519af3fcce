"""Every signature carries an excerpt of a log, and that excerpt is judged rightly."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from sglgate.diagnosis import KNOWN_CAUSES, Diagnoser
from sglgate.diagnosis.causes import CAUSES, SIGNATURES

EXCERPTS = tomllib.loads((Path(__file__).parent / "corpus" / "signatures.toml").read_text())
BY_NAME = {signature.name: signature for signature in SIGNATURES}


def test_the_table_has_exactly_the_causes_that_may_be_answered():
    assert sorted(KNOWN_CAUSES) == sorted([*CAUSES, "none", "unknown"])
    assert len(KNOWN_CAUSES) == 32


def test_signature_names_are_unique_and_name_their_cause():
    assert len(BY_NAME) == len(SIGNATURES)
    assert {signature.cause for signature in SIGNATURES} == set(CAUSES)


def test_every_signature_has_an_excerpt_of_its_own():
    assert sorted(EXCERPTS) == sorted(BY_NAME)


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_the_excerpt_of_a_signature_is_judged_rightly(name):
    excerpt = EXCERPTS[name]
    diagnoser = Diagnoser()
    diagnoser.feed(excerpt["log"].encode())
    diagnoser.close()
    answer = diagnoser.diagnosis("excerpt")
    assert name in {hit.signature.name for hit in diagnoser.incident.hits}
    assert answer.cause == excerpt.get("cause", BY_NAME[name].cause), answer.summary_lines()
    if answer.facts.get("signature") == name:
        assert answer.confidence == excerpt.get("confidence", BY_NAME[name].confidence)


@pytest.mark.parametrize(
    "line",
    [
        '[2026-03-01 12:00:00] INFO:     10.0.0.1:30000 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
        '[2026-03-01 12:00:00] INFO:     10.0.0.1:30000 - "GET /health_generate HTTP/1.1" 200 OK',
        '[2026-03-01 12:00:00] INFO:     10.0.0.1:30000 - "GET /get_model_info HTTP/1.1" 200 OK',
        '[2026-03-01 12:00:00] INFO:     10.0.0.1:30000 - "POST /generate HTTP/1.1" 503 Service Unavailable',
        "[2026-03-01 12:00:00 TP0] Cache flushed successfully!",
        "[2026-03-01 12:00:00 TP0] Abort request. rid='6847fb46'",
    ],
)
def test_the_lines_that_come_by_the_million_hold_no_literal(line):
    # A literal is looked for by the tail at its rarest letter: a short tail makes every such line be read.
    assert list(Diagnoser().reader.read(line.encode() + b"\n")) == []
