"""Bytes in, interesting lines out: one pass, flat memory, any chunk size."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from sglgate.logs.lines import Line, clean, find_stamp, split_records
from sglgate.logs.needles import compile_needles

MAX_LINE_BYTES = 1 << 18
_MAX_PENDING_BYTES = 1 << 20
_LOOK_BACK_BYTES = 1 << 16
_STAMP_START = re.compile(rb"\[(?:\d{4}-|\d\d:\d\d:|(?:DP|PP|TP|EP)\d)")


class LineScanner:
    """Yields every :class:`Line` that holds one of ``needles``; counts all the others.

    ``feed`` takes any piece of the stream; a line is looked at when its newline has arrived, the last one at ``close``.
    Of a line longer than :data:`MAX_LINE_BYTES` the first and last halves of that many bytes are kept.

    ``bulk`` and ``on_bulk`` are for lines that come by the million: where a hit starts a match of ``bulk``, the match is
    handed over and no :class:`Line` is made. Assign ``bulk`` at any time.
    """

    def __init__(
        self, needles: Iterable[str], on_bulk: Callable[[re.Match[bytes]], None] = lambda match: None
    ) -> None:
        self._hit = compile_needles(needles)
        self._on_bulk = on_bulk
        self.bulk: re.Pattern[bytes] | None = None
        self._pending = b""
        self._rank = ""
        self.lines = 0
        self.bytes = 0
        self.longest_line_bytes = 0

    def feed(self, data: bytes) -> Iterator[Line]:
        """The interesting lines that ``data`` completes."""
        self.bytes += len(data)
        cut = data.rfind(b"\n")
        if cut < 0:
            self._pending += data
            if len(self._pending) > _MAX_PENDING_BYTES:
                yield from self._overflow()
            return
        block = self._pending + data[: cut + 1]
        self._pending = data[cut + 1 :]
        yield from self._scan(block)

    def close(self) -> Iterator[Line]:
        """The last line, if it had no newline."""
        block, self._pending = self._pending, b""
        if block:
            yield from self._scan(block + b"\n")

    def _overflow(self) -> Iterator[Line]:
        """A line that will not end (a bar, binary data): look at what is there and forget it, without counting it."""
        block, self._pending = self._pending, b""
        before = self.lines
        yield from self._scan(block)
        self.lines = before

    def _scan(self, block: bytes) -> Iterator[Line]:
        at, counted, number, size = 0, 0, self.lines + 1, len(block)
        while hit := self._hit.search(block, at):
            if self.bulk is not None and (many := self.bulk.match(block, hit.start())):
                self._on_bulk(many)
                at = many.end()
                continue
            start = block.rfind(b"\n", counted, hit.start()) + 1 or counted
            end = block.find(b"\n", hit.end() - 1)
            end = size if end < 0 else end
            number += block.count(b"\n", counted, start)
            counted = start
            self._inherit(block, at, start)
            for line in split_records(number, _shorten(block[start:end]), self._rank):
                if line.stamped:
                    self._rank = line.rank
                yield line
            self.longest_line_bytes = max(self.longest_line_bytes, end - start)
            at = end
        self._inherit(block, at, size)
        self.lines = number - 1 + block.count(b"\n", counted)

    def _inherit(self, block: bytes, start: int, end: int) -> None:
        """An uninteresting stamped line in between ends the record before it, and with it the rank."""
        start = max(start, end - _LOOK_BACK_BYTES)
        at = block.rfind(b"[", start, end)
        for _ in range(8):
            if at < 0:
                return
            if _STAMP_START.match(block, at, end) and (
                stamp := find_stamp(clean(block[at : min(end, at + 80)]))
            ):
                self._rank = stamp[0]
                return
            at = block.rfind(b"[", start, at)


def _shorten(raw: bytes) -> bytes:
    if len(raw) <= MAX_LINE_BYTES:
        return raw
    half = MAX_LINE_BYTES // 2
    return raw[:half] + b" ... " + raw[-half:]
