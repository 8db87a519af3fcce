"""Parts of a log with their line numbers: the end of it, and the lines that a reason speaks of."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from sglgate.logs.lines import clean
from sglgate.redact import redact

_TAIL_LINES: Final = 40
_AROUND_LINES: Final = 3
_MOST_LINES: Final = 160
_LONGEST: Final = 400
_SPOKEN_OF: Final = re.compile(r"\bline (\d{1,9})\b")


@dataclass(frozen=True)
class LogLine:
    """One line; ``href`` leads to it in the file, in a browser that takes the file for ``text/plain``."""

    number: int
    text: str
    is_spoken_of: bool
    href: str
    follows_gap: bool


@dataclass(frozen=True)
class Excerpt:
    """What the page shows of a log. ``problem`` says why there are no lines."""

    lines: tuple[LogLine, ...]
    problem: str = ""

    @property
    def numbers(self) -> frozenset[int]:
        """Of the lines that are in it."""
        return frozenset(line.number for line in self.lines)


def spoken_of(reason: str) -> set[int]:
    """The numbers of the lines that a reason names."""
    return {int(number) for number in _SPOKEN_OF.findall(reason)}


def split_at_lines(reason: str) -> Iterator[tuple[str, int | None]]:
    """The reason in pieces; one that names a line comes with its number."""
    at = 0
    for match in _SPOKEN_OF.finditer(reason):
        yield reason[at : match.start()], None
        yield match[0], int(match[1])
        at = match.end()
    yield reason[at:], None


def inside(folder: Path, log: str) -> Path | None:
    """The log's path, if it is a file of the run's folder: evidence of another's making may name any file."""
    try:
        path = (folder / log).resolve()
        is_own = path.is_relative_to(folder.resolve()) and path.is_file()
    except (OSError, ValueError):  # ValueError: a null character
        return None
    return path if is_own else None


def href(log: str) -> str:
    """A relative link that no browser can take for an address elsewhere."""
    return "./" + quote(log, errors="replace")


def excerpt(folder: Path, log: str, wanted: Iterable[int]) -> Excerpt:
    """The last lines of a log and those around ``wanted``, without what a terminal would obey and without secrets."""
    path = inside(folder, log)
    if path is None:
        return Excerpt((), "no such file in this run")
    wanted = set(wanted)
    around = {n + step for n in wanted for step in range(-_AROUND_LINES, _AROUND_LINES + 1)}
    kept: dict[int, str] = {}
    tail: deque[tuple[int, bytes]] = deque(maxlen=_TAIL_LINES)
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if number in around and len(kept) < _MOST_LINES:
                    kept[number] = _one_line(line)
                tail.append((number, line))
    except OSError as error:
        return Excerpt((), str(error.strerror))
    kept |= {number: _one_line(line) for number, line in tail}
    numbers = sorted(kept)
    # In one piece: a private key spans lines. It keeps its lines, each hidden.
    texts = redact("\n".join(kept[n] for n in numbers)).split("\n")
    return Excerpt(tuple(_lines(log, numbers, texts, wanted)))


def _one_line(raw: bytes) -> str:
    """A line of a log; one that carries a message as JSON may have several in it."""
    return clean(raw).replace("\n", " ")


def _lines(log: str, numbers: list[int], texts: list[str], wanted: set[int]) -> Iterator[LogLine]:
    for index, (number, text) in enumerate(zip(numbers, texts, strict=True)):
        # A fragment that is searched for: its own marks (, - &) are escaped.
        start = quote(text.strip()[:60], safe="", errors="replace").replace("-", "%2D")
        fragment = f"#:~:text={start}" if start else ""
        gap = number != (numbers[index - 1] + 1 if index else 1)
        yield LogLine(number, text[:_LONGEST], number in wanted, href(log) + fragment, gap)
