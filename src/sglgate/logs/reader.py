"""The log reader: feed bytes, get events, and have a startup record at any time.

    reader = LogReader()
    for event in reader.feed(data): ...     # as the bytes arrive, any size
    for event in reader.close(): ...        # the end of the log
    reader.record                           # StartupRecord so far

One pass, flat memory: nothing is kept but the record, whose lists are capped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from sglgate.logs.args import parse_server_args
from sglgate.logs.builder import RecordBuilder
from sglgate.logs.formats import (
    DECODE,
    DECODE_CORE,
    FATAL_CORES,
    FORMATS,
    PREFILL,
    PREFILL_CORE,
    Format,
    Kind,
)
from sglgate.logs.lines import Line
from sglgate.logs.record import Event, StartupRecord
from sglgate.logs.scanner import LineScanner

_MAX_TEXT: Final = 2000
_INTEGERS: Final = frozenset(
    [
        "tokens",
        "total_bytes",
        "sub_pools",
        "full_tokens",
        "swa_tokens",
        "slots",
        "step",
        "size",
        "count",
        "requests",
        "done",
        "total",
        "percent",
        "new_seq",
        "new_tokens",
        "cached_tokens",
        "running",
        "max_total_num_tokens",
        "chunked_prefill_size",
        "max_prefill_tokens",
        "max_running_requests",
        "context_len",
    ]
)
_FLOATS: Final = frozenset(["elapsed_s", "accept_len", "tok_per_s"])


class LogReader:
    """Reads one server's log.

    Args:
        extra_needles: further literals; :meth:`read` also yields the lines that hold one of them.
        batch_events: yield every batch line. Off, batch lines are only counted into the record, and a log of
            gigabytes is read several times faster.
    """

    def __init__(self, extra_needles: Iterable[str] = (), *, batch_events: bool = True) -> None:
        cores = [core for entry in FORMATS for core in entry.core]
        self._builder = RecordBuilder()
        self._scanner = LineScanner(
            [*cores, *FATAL_CORES, *extra_needles, DECODE_CORE, PREFILL_CORE],
            self._builder.add_batches,
            sparing=not batch_events,
        )
        self._batch_events = batch_events

    @property
    def record(self) -> StartupRecord:
        """Everything recognised so far, of the last launch in the log."""
        self._builder.record.lines, self._builder.record.bytes = self._scanner.lines, self._scanner.bytes
        return self._builder.record

    def feed(self, data: bytes) -> list[Event]:
        """The events of the lines that ``data`` completes; it may end anywhere, also inside a character."""
        return [event for _, event in self.read(data) if event is not None]

    def close(self) -> list[Event]:
        """The events of the last, unterminated line. The reader must not be fed afterwards."""
        return [event for _, event in self.read_rest() if event is not None]

    def read(self, data: bytes) -> Iterator[tuple[Line, Event | None]]:
        """Like :meth:`feed`, with the lines; an ``extra_needles`` line of no known format has no event."""
        for line in self._scanner.feed(data):
            yield line, self._recognise(line)

    def read_rest(self) -> Iterator[tuple[Line, Event | None]]:
        """Like :meth:`close`, with the lines."""
        for line in self._scanner.close():
            yield line, self._recognise(line)

    def _recognise(self, line: Line) -> Event | None:
        event = recognise(line)
        if event is not None:
            self._builder.add(event)
            if event.kind in (Kind.DECODE_BATCH, Kind.PREFILL_BATCH) and not self._batch_events:
                self._scanner.bulk_batches = True  # the first batch line is seen; from here on they are only counted
        return event


def recognise(line: Line) -> Event | None:
    """What ``line`` says, or None where it holds no core of any format."""
    text = line.text
    for core, kind, pattern in (
        (DECODE_CORE, Kind.DECODE_BATCH, DECODE),
        (PREFILL_CORE, Kind.PREFILL_BATCH, PREFILL),
    ):
        if text.startswith(core):
            match = pattern.match(text.encode())
            if match is None:
                return _event(line, Kind.UNKNOWN_FORMAT, {"format": str(kind)})
            return _event(line, kind, {k: v.decode() for k, v in match.groupdict().items() if v is not None})
    for entry in FORMATS:
        if any(core in text for core in entry.core):
            event = _parse(line, entry)
            if event is not None:
                return event
    if any(core in text for core in FATAL_CORES):
        return _event(line, Kind.FATAL, {})
    return None


def _parse(line: Line, entry: Format) -> Event | None:
    found = entry.parse(line.text)
    if found is None:
        return _event(line, Kind.UNKNOWN_FORMAT, {"format": str(entry.kind)}) if entry.strict else None
    versions, data = found
    event = _event(line, entry.kind, data, versions)
    if event.kind == Kind.SERVER_ARGS:
        arguments = parse_server_args(data["value"])
        if arguments is None:
            return _event(line, Kind.UNKNOWN_FORMAT, {"format": str(entry.kind)})
        event.data = {"server_args": arguments}
    return event


def _event(line: Line, kind: Kind, data: dict[str, str], versions: str = "") -> Event:
    try:
        numbers = {key: _number(key, value) for key, value in data.items()}
    except ValueError:  # "1.2.3", or thousands of digits
        kind, numbers = Kind.UNKNOWN_FORMAT, {"format": str(kind)}
    return Event(str(kind), line.number, line.rank, line.time, line.text[:_MAX_TEXT], numbers, versions)


def _number(key: str, value: str) -> Any:
    if key == "batch_sizes":
        return tuple(int(item) for item in value.split(",") if item.strip())
    if value == "None":
        return None
    if key in _INTEGERS:
        return int(value)
    return float(value) if key.endswith("_gib") or key in _FLOATS else value.strip()
