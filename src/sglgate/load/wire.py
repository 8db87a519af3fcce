"""HTTP/1.1 responses that carry server-sent events, parsed at the cost of a few byte searches an event.

Sans-IO: bytes in, event payloads out. Own code because it is on the path of every token; docs/load.md has
what that buys over aiohttp. Only what a server of ours sends is understood; anything else is a
:class:`WireError`, because a client that guesses at framing miscounts tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MAX_HEAD_BYTES = 64 * 1024
MAX_BUFFER_BYTES = 64 * 1024 * 1024
MAX_ERROR_BODY_BYTES = 4096

_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-5]\d\d)(?: |\r\n|$)")
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;.*)?")
_BLANK_LINE = re.compile(rb"\n\r?\n")
_OTHER_FIELDS = (b":", b"event:", b"id:", b"retry:")


class WireError(Exception):
    """Bytes that are no HTTP/1.1 response with server-sent events, or that end too early."""


class SseDecoder:
    """Server-sent events out of a byte stream cut anywhere."""

    def __init__(self) -> None:
        self._pending = b""

    def feed(self, piece: bytes, events: list[bytes]) -> None:
        """Append the payload of each event that ``piece`` completes to ``events``."""
        if not self._pending and piece[:6] == b"data: " and piece[-2:] == b"\n\n" and piece.count(b"\n") == 2:
            # What SGLang sends: one event a chunk. Nothing below runs for a well-behaved server.
            events.append(piece[6:-2])
            return
        data = self._pending + piece
        start = 0
        for blank in _BLANK_LINE.finditer(data):
            self._decode(data[start : blank.start()], events)
            start = blank.end()
        self._pending = data[start:]
        if len(self._pending) > MAX_BUFFER_BYTES:
            raise WireError(f"an event longer than {MAX_BUFFER_BYTES} bytes")

    def close(self) -> None:
        """Check that nothing of an unfinished event is left."""
        if self._pending.strip(b"\r\n"):
            raise WireError(f"the stream ends inside an event: {self._pending[:80]!r}")

    @staticmethod
    def _decode(block: bytes, events: list[bytes]) -> None:
        payload: list[bytes] = []
        for raw in block.split(b"\n"):
            line = raw.removesuffix(b"\r")
            if line.startswith(b"data:"):
                payload.append(line[5:].removeprefix(b" "))
            elif line and not line.startswith(_OTHER_FIELDS):
                raise WireError(f"malformed event line: {line[:80]!r}")
        if payload:
            events.append(b"\n".join(payload))


class ResponseParser:
    """One response: head, then a body of server-sent events (or the text of an error).

    Attributes:
        status: the status code once the head has been read, else 0.
        done: the body is complete.
        keep_alive: the connection may carry another request.
        body: the first bytes of the body when it is not an event stream with status 200.
    """

    def __init__(self) -> None:
        self.status = 0
        self.done = False
        self.keep_alive = True
        self.body = b""
        self._rest = b""
        self._chunked = False
        self._remaining: int | None = None
        self._events_expected = False
        self._last_chunk_seen = False
        self._sse = SseDecoder()

    def feed(self, data: bytes) -> list[bytes]:
        """Payloads of the events completed by ``data``; raises :class:`WireError`."""
        events: list[bytes] = []
        if self._rest:
            data = self._rest + data
            self._rest = b""
        if not self.status:
            data = self._head(data)
            if not self.status:
                return events
        if self.done:
            if data:
                raise WireError(f"bytes after the end of the response: {data[:80]!r}")
        elif self._chunked:
            self._chunks(data, events)
        else:
            self._plain(data, events)
        return events

    def feed_eof(self) -> None:
        """The peer closed: fine only where the close ends the body."""
        if self.done:
            return
        if self.status and not self._chunked and self._remaining is None:
            self._finish()
            return
        raise WireError("the connection closed " + ("inside the response" if self.status else "before a response"))

    def _head(self, data: bytes) -> bytes:
        """Read the head; returns the bytes behind it, or keeps what there is and returns nothing."""
        while True:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) > MAX_HEAD_BYTES or not b"HTTP/1.".startswith(data[:7]):
                    raise WireError(f"not an HTTP/1.1 response: {data[:80]!r}")
                self._rest = data
                return b""
            match = _STATUS_LINE.match(data)
            if match is None:
                raise WireError(f"not an HTTP/1.1 response: {data[:80]!r}")
            head, data = data[:end], data[end + 4 :]
            if match[1][:1] != b"1":
                break
        self.status = int(match[1])
        headers: dict[bytes, bytes] = {}
        for line in head.split(b"\r\n")[1:]:
            name, colon, value = line.partition(b":")
            if not colon:
                raise WireError(f"malformed header line: {line[:80]!r}")
            headers[name.lower()] = value.strip().lower()
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise WireError(f"compressed body, not asked for: {headers[b'content-encoding']!r}")
        self._chunked = headers.get(b"transfer-encoding") == b"chunked"
        self.keep_alive = headers.get(b"connection") != b"close" and head.startswith(b"HTTP/1.1")
        self._events_expected = self.status == 200 and headers.get(b"content-type", b"").startswith(
            b"text/event-stream"
        )
        if not self._chunked:
            length = headers.get(b"content-length")
            if length is None:
                self.keep_alive = False
            elif not length.isdigit():
                raise WireError(f"malformed Content-Length: {length[:40]!r}")
            else:
                self._remaining = int(length)
        return data

    def _chunks(self, data: bytes, events: list[bytes]) -> None:
        position, length = 0, len(data)
        take = self._taker()
        while not self.done:
            line_end = data.find(b"\r\n", position)
            if line_end < 0:
                break
            if self._last_chunk_seen:  # trailers, up to an empty line
                if line_end == position:
                    self._finish()
                position = line_end + 2
                continue
            size = _chunk_size(data[position:line_end])
            start = line_end + 2
            end = start + size
            if size == 0:
                self._last_chunk_seen = True
                position = start
                continue
            if end + 2 > length:
                break
            if data[end : end + 2] != b"\r\n":
                raise WireError(f"a chunk of {size} bytes is not followed by a line end")
            take(data[start:end], events)
            position = end + 2
        self._rest = data[position:]
        if self.done and self._rest:
            raise WireError(f"bytes after the end of the response: {self._rest[:80]!r}")
        if len(self._rest) > MAX_BUFFER_BYTES:
            raise WireError(f"a chunk longer than {MAX_BUFFER_BYTES} bytes")

    def _plain(self, data: bytes, events: list[bytes]) -> None:
        if self._remaining is not None:
            if len(data) > self._remaining:
                raise WireError("more bytes than Content-Length says")
            self._remaining -= len(data)
        if data:
            self._taker()(data, events)
        if self._remaining == 0:
            self._finish()

    def _taker(self) -> Callable[[bytes, list[bytes]], None]:
        return self._sse.feed if self._events_expected else self._take_error

    def _take_error(self, piece: bytes, events: list[bytes]) -> None:
        self.body = (self.body + piece)[:MAX_ERROR_BODY_BYTES]

    def _finish(self) -> None:
        self._sse.close()
        self.done = True


_sizes: dict[bytes, int] = {}


def _chunk_size(line: bytes) -> int:
    """The size a chunk's first line states. Sizes repeat, so the strict parse of a line runs once."""
    size = _sizes.get(line)
    if size is None:
        match = _CHUNK_SIZE.fullmatch(line)
        if match is None:
            raise WireError(f"malformed chunk size: {line[:40]!r}")
        size = int(match[1], 16)
        if len(_sizes) < 65_536:
            _sizes[line] = size
    return size
