"""Bytes in, interesting lines out: one pass, flat memory, any chunk size.

A log of gigabytes is almost wholly made of lines that nobody asks about, and testing each with a pattern of
some hundred literals costs many times the budget. But those lines repeat: without its digits, an access line
is one of a few *shapes*. So each line loses its digits (one C call), and a shape that was found to be without
interest is never tested again. Nothing is lost by it: a line that holds a literal has a shape that holds the
literal without its digits.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Final

from sglgate.logs.lines import Line, clean, find_stamp, split_records
from sglgate.logs.needles import compile_needles

MAX_LINE_BYTES: Final = 1 << 18
_MAX_PENDING_BYTES: Final = 1 << 20
_MAX_SHAPE_BYTES: Final = 4096
_MAX_SHAPES: Final = 1 << 14
_REPEATS: Final = 1024
_LOOK_BACK_LINES: Final = 400
_LOOK_BACK_BYTES: Final = 1 << 14
_DIGITS: Final = b"0123456789"
_STAMP_START: Final = re.compile(rb"\[(?:\d{4}-|\d\d-\d\d |\d\d:\d\d:|(?:DP|PP|TP|EP)\d)")
_BATCH: Final = b" batch, #"
# What users sent and got stands in these lines, and may well read like an error message.
_REQUEST: Final = (b"Receive: obj=", b"Finish: obj=", b"Receive: request", b"Finish: request")


class LineScanner:
    """Yields every :class:`Line` that holds one of ``needles``; counts all the others.

    ``feed`` takes any piece of the stream; a line is looked at when its newline has arrived, the last one at
    ``close``. Of a line longer than :data:`MAX_LINE_BYTES` the first and last halves of that many bytes are
    kept.

    ``on_batches`` gets whole blocks, with the number of their first line, for their batch lines while
    ``bulk_batches`` is set: these come by the million, so no :class:`Line` is made of them. It takes effect
    with the next block.

    With ``sparing``, a shape that came :data:`_REPEATS` times is no longer looked at when it comes: the last
    so many of such lines are kept aside, and read when a rarer line comes or the log ends. A server that
    prints the same traceback for each of a million requests says nothing new by it, but its last words count.
    """

    def __init__(
        self,
        needles: Iterable[str],
        on_batches: Callable[[bytes, int], None] = lambda block, first_line: None,
        *,
        sparing: bool = False,
    ) -> None:
        literals = tuple(needles)
        self._hit = compile_needles(literals)
        self._shape_hit = compile_needles(_without_digits(literals))
        self._dull: set[bytes] = set()
        self._on_batches = on_batches
        self._sparing = sparing
        self._seen: dict[bytes, int] = {}
        self._aside: deque[tuple[int, bytes]] = deque(maxlen=_REPEATS)
        self.bulk_batches = False
        self._pending = b""
        self._rank = ""
        self.lines = 0
        self.bytes = 0

    def feed(self, data: bytes) -> Iterator[Line]:
        """The interesting lines that ``data`` completes."""
        self.bytes += len(data)
        cut = data.rfind(b"\n")
        if cut < 0:
            self._pending += data
            if len(self._pending) > _MAX_PENDING_BYTES:
                yield from self._overflow()
            return
        block = self._pending + data[:cut] if self._pending else data[:cut]
        self._pending = data[cut + 1 :]
        yield from self._scan(block)

    def close(self) -> Iterator[Line]:
        """The last line, if it had no newline."""
        block, self._pending = self._pending, b""
        if block:
            yield from self._scan(block)
        yield from self._take_up()

    def _overflow(self) -> Iterator[Line]:
        """A line that will not end (a bar, binary data): look at it, forget it, do not count it."""
        block, self._pending = self._pending, b""
        yield from self._scan(block)
        self.lines -= 1

    def _scan(self, block: bytes) -> Iterator[Line]:
        if self.bulk_batches:
            self._on_batches(block, self.lines + 1)
        shapes = block.translate(None, _DIGITS).split(b"\n")
        hot = {shape for shape in set(shapes) - self._dull if self._interesting(shape)}
        lines = block.split(b"\n") if hot else []
        looked_back = 0
        for index, shape in enumerate(shapes if hot else ()):
            if shape not in hot or not self._wanted(lines[index]):
                continue
            if self._sparing and self._repeated(shape):
                self._aside.append((self.lines + index + 1, lines[index]))
                continue
            yield from self._take_up()
            self._inherit(lines, looked_back, index)
            looked_back = index + 1
            yield from self._records(self.lines + index + 1, lines[index])
        self._inherit(lines or block[-_LOOK_BACK_BYTES:].split(b"\n"), looked_back, None)
        self.lines += len(shapes)

    def _records(self, number: int, raw: bytes) -> Iterator[Line]:
        for line in split_records(number, _shorten(raw), self._rank):
            if line.stamped:
                self._rank = line.rank
            yield line

    def _repeated(self, shape: bytes) -> bool:
        count = self._seen.get(shape, 0)
        if count < _REPEATS:
            if len(self._seen) >= _MAX_SHAPES:
                self._seen.clear()
            self._seen[shape] = count + 1
        return count >= _REPEATS

    def _take_up(self) -> Iterator[Line]:
        while self._aside:
            yield from self._records(*self._aside.popleft())

    def _interesting(self, shape: bytes) -> bool:
        """Whether a line of this shape may hold a literal; a shape without one is remembered."""
        batch = self.bulk_batches and _BATCH in shape
        if not batch and self._shape_hit.search(shape) is not None:
            return True
        if len(shape) <= _MAX_SHAPE_BYTES:
            if len(self._dull) >= _MAX_SHAPES:
                self._dull.clear()
            self._dull.add(shape)
        return False

    def _wanted(self, raw: bytes) -> bool:
        return self._hit.search(raw) is not None and not any(word in raw[:200] for word in _REQUEST)

    def _inherit(self, lines: list[bytes], start: int, end: int | None) -> None:
        """A dull stamped line in between ends the record before it, and with it that record's rank."""
        end = len(lines) if end is None else end
        for index in range(end - 1, max(start, end - _LOOK_BACK_LINES) - 1, -1):
            raw = lines[index]
            if (match := _STAMP_START.search(raw, 0, 200)) and (
                stamp := find_stamp(clean(raw[match.start() : match.start() + 80]))
            ):
                self._rank = stamp[0]
                return


@cache
def _without_digits(literals: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(literal.translate({ord(digit): None for digit in "0123456789"}) for literal in literals)


def _shorten(raw: bytes) -> bytes:
    if len(raw) <= MAX_LINE_BYTES:
        return raw
    half = MAX_LINE_BYTES // 2
    return raw[:half] + b" ... " + raw[-half:]
