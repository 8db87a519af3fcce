"""One log line: its number, its rank, its time and its message, whatever carried it here.

SGLang writes ``[2026-03-01 12:00:00 DP0 TP3 EP3] message`` (``srt/utils/common.py::configure_logger`` and
``srt/managers/scheduler.py``, the same from 0.5.5 to 0.5.23). Compose, journald, Kubernetes and Ray put
their own words in front, terminals add colours, and a progress bar without a newline may stand before a
record on the same line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

_STAMP = re.compile(
    r"\[(?P<time>(?:(?:\d{4}-)?\d\d-\d\d[ T])?\d\d:\d\d:\d\d(?:[.,]\d+)?)(?P<ranks>(?: [A-Z][A-Z_]*\d+)*)\] ?"
    r"|\[(?P<only>(?:(?:DP|PP|TP|EP)\d+ ?)+)\] ?"
)
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-_]|\x1b\][^\x07]*\x07")
_BAR = re.compile(r"\d%[^|]{0,20}\|")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_LEVEL = r"(?:ERROR|WARNING|INFO|DEBUG|DEFAULT|CRITICAL|NOTICE)"
_CARRIER = re.compile(
    r"^(?:"
    r"[\w./-]{1,80}\s*\|\s"  # docker compose: name-1  |
    r"|[>│]\s?"  # quoted in a mail or an issue, framed by a terminal
    r"|(?:[A-Z][a-z]{2}\s+\d{1,2}\s\d\d:\d\d:\d\d|" + _ISO + r")\s\S{1,80}\s[\w.@/-]{1,60}(?:\[\d+\])?:\s"  # journalctl
    r"|" + _ISO + r"\s(?:stdout|stderr)\s[FP]\s"  # Kubernetes CRI
    r"|" + _LEVEL + r"\s+" + _ISO + r"\s"  # a cloud's log export
    r"|" + _ISO + r"\s-\s[\w.]{1,60}\s-\s" + _LEVEL + r"\s-\s"  # another program that logs our output
    r"|" + _LEVEL + r"\s\d\d-\d\d\s\d\d:\d\d:\d\d\s\[?[\w.]+:\d+\]\s"
    r"|\[pod/[^\]]{1,160}\]\s"  # kubectl logs --prefix
    r"|\(\w[\w.:]* pid=\d+(?:, ip=[\d.]+)?\)\s"  # Ray
    r"|" + _ISO + r"\s(?!-)"  # docker --timestamps, kubectl --timestamps
    r")"
)


@dataclass(frozen=True, slots=True)
class Line:
    """One record.

    Attributes:
        number: 1-based, counted by newlines in the input; two records on one line share it.
        rank: as printed, such as ``"DP0 TP3"``; ``""`` for the launching process or an unprefixed line
            before any.
        time: as printed, or None.
        text: the message without carrier, stamp, colours and control characters.
        stamped: False for a continuation (a traceback's frames), whose rank is that of the last stamped
            record.
    """

    number: int
    rank: str
    time: str | None
    text: str
    stamped: bool


def clean(raw: bytes) -> str:
    """Decode; drop colours and control characters; of a bar that redrew itself keep the last state."""
    text = _ANSI.sub("", _unwrap(raw.decode("utf-8", "replace"))).rstrip("\r\n")
    if "\r" in text:
        # A record may follow a bar on its line: only the bar's earlier states are dropped.
        pieces = [piece for piece in text.split("\r") if piece.strip()]
        kept = [piece for piece in pieces[:-1] if _STAMP.search(piece) or not _BAR.search(piece)]
        text = " ".join([*kept, *pieces[-1:]])
    return _CONTROL.sub("", text).rstrip("│ ")


def _unwrap(text: str) -> str:
    """The message of a JSON log line (docker's json-file driver, filebeat), or the text as it is."""
    if not text.startswith("{"):
        return text
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return text
    message = next((entry[key] for key in ("log", "message", "msg") if isinstance(entry.get(key), str)), None)
    return text if message is None else str(message)


def strip_carrier(text: str) -> str:
    """Without what compose, journald, Kubernetes or Ray put in front, at most three layers of it."""
    for _ in range(3):
        match = _CARRIER.match(text)
        if match is None:
            break
        text = text[match.end() :]
    return text


def find_stamp(text: str) -> tuple[str, str | None] | None:
    """(rank, time) of the first SGLang stamp in ``text``, or None."""
    match = _STAMP.search(text)
    return None if match is None else _rank_and_time(match)


def split_records(number: int, raw: bytes, inherited_rank: str) -> Iterator[Line]:
    """The records of one physical line, in order; an unstamped beginning inherits the last stamp's rank."""
    text = clean(raw)
    stamps = [m for m in _STAMP.finditer(text) if m["time"] or m.start() == 0]
    if not stamps:
        yield Line(number, inherited_rank, None, strip_carrier(text), stamped=False)
        return
    before = strip_carrier(text[: stamps[0].start()]).strip()
    if len(before) > 3 and not _CARRIER.match(text[: stamps[0].start()].rstrip() + " "):
        yield Line(number, inherited_rank, None, before, stamped=False)
    for at, match in enumerate(stamps):
        end = stamps[at + 1].start() if at + 1 < len(stamps) else len(text)
        rank, time = _rank_and_time(match)
        yield Line(number, rank, time, text[match.end() : end].strip(), stamped=True)


def _rank_and_time(match: re.Match[str]) -> tuple[str, str | None]:
    return (match["ranks"] or match["only"] or "").strip(), match["time"]
