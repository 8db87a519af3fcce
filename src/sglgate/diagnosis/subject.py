"""What a report is about where no rule knows a line of it: words of each cause, counted and weighed.

Only a report of a failure is weighed, in the lines that a person wrote, in frames and in lines of errors. The answer
stands only with a clear margin, and the lines with the counted words are its evidence.
"""

# A pattern that is broken over lines cannot be searched for.
# ruff: noqa: E501
from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from sglgate.diagnosis.causes.glossary import in_english
from sglgate.diagnosis.causes.subjects import SUBJECTS
from sglgate.patterns import compiled

KEPT_BYTES: Final = 16_384
_LONGEST: Final = 1500
# A word counts once, and half again where it comes back; in the first line, which is a title or a summary, twice.
_COMES_BACK: Final = 0.5
_HEAD: Final = 2.0
_ENOUGH: Final = 3.0
_WORDS: Final = 2
_MARGIN: Final = 1.2

# A list of what is installed, a command, a check list, a setting: they name everything and tell nothing.
_NO_SUBJECT: Final = re.compile(
    r"^\s*(?:[-*] \[.\]|\||export |docker |python3? |pip |sudo |sglang |--[a-z]|-[-ve] |(?:NV|CUDA|GPU\d|NIC\d|CPU|Hypervisor|ulimit|PyTorch|Python|Legend)\b[^.]{0,60}:?\s)"
    r"|^\s*[\w .+-]{1,40}(?:: |==|\s{2,})v?\d[\w.+]*\s*$|^\s*\w+=\S*$|NCCL INFO|(?:'\w+': [^,']{1,40}, ?){3}|ServerArgs\(|server_args=|launch_server|sglang serve"
)
_ERROR: Final = re.compile(
    r"(?:Error|Exception)\b|hit an exception|\bERROR\b|\berror:|\b[Ff]ailed\b|[Aa]ssertion|\bassert\b"
)


@dataclass(slots=True)
class Subject:
    """One cause with what speaks for it."""

    cause: str
    score: float
    lines: list[tuple[int, str]] = field(default_factory=list)
    words: int = 0


def weigh(lines: Iterable[tuple[int, str, bool]]) -> list[Subject]:
    """The causes that lines ``(number, text, stamped)`` speak of, the weightiest first."""
    counted = [
        (number, in_english(text))
        for number, text, stamped in lines
        if text.strip()
        and len(text) <= _LONGEST
        and not _NO_SUBJECT.search(text)
        and (not stamped or _ERROR.search(text))
    ]
    found = [_one(cause, words, counted) for cause, words in SUBJECTS.items()]
    return sorted((subject for subject in found if subject.score), key=lambda subject: -subject.score)


def _one(cause: str, words: tuple[tuple[float, str], ...], lines: list[tuple[int, str]]) -> Subject:
    """What speaks for one cause; nothing does where its first word, the subject itself, is missing."""
    subject = Subject(cause, 0.0)
    for weight, pattern in words:
        having = [(at, number, text) for at, (number, text) in enumerate(lines) if compiled(pattern).search(text)]
        if not having:
            if pattern == words[0][1]:
                return subject
            continue
        first = _HEAD if having[0][0] == 0 else 1.0
        subject.score += weight * (first + (_COMES_BACK if len(having) > 1 else 0.0))
        subject.words += 1
        subject.lines += [(number, text) for _, number, text in having[:2]]
    return subject


def clear(subjects: list[Subject]) -> Subject | None:
    """The weightiest, where it is heavy enough and no other comes near."""
    if not subjects or subjects[0].score < _ENOUGH or subjects[0].words < _WORDS:
        return None
    if len(subjects) > 1 and subjects[0].score < _MARGIN * subjects[1].score:
        return None
    return subjects[0]
