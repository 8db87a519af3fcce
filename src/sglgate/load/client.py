"""Connections to one server: send a request, fill its flight, never raise for what the server does."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from sglgate.errors import MisuseError
from sglgate.load.flight import FailureKind, Flight, ServerReportedError
from sglgate.load.wire import ResponseParser, WireError

READ_BYTES = 128 * 1024
# uvicorn closes an idle connection after 5 s; well before that a reused one could die under a request of
# ours.
IDLE_REUSE_S = 1.0
SWEEP_S = 0.25


def generate_body(
    text: str, output_tokens: int, *, ignore_eos: bool = True, fields: Mapping[str, Any] | None = None
) -> bytes:
    """The body of a greedy streaming ``POST /generate``; ``fields`` adds to it (``return_logprob``, ...)."""
    sampling = {"temperature": 0.0, "max_new_tokens": output_tokens, "ignore_eos": ignore_eos}
    return json.dumps({"text": text, "stream": True, "sampling_params": sampling, **(fields or {})}).encode()


class Client:
    """A pool of keep-alive connections, one request at a time on each.

    Args:
        base_url: ``http://host:port``.
        timeout_s: from send to last event.
        stall_s: between two events, once the first has come.
    """

    def __init__(self, base_url: str, *, timeout_s: float = 600.0, stall_s: float = 60.0) -> None:
        url = urlsplit(base_url)
        if url.scheme != "http" or not url.hostname:
            raise MisuseError(
                "not the address of a server", key="base_url", value=base_url, expected="http://host:port"
            )
        self._host, self._port = url.hostname, url.port or 80
        self._head = (
            f"POST {url.path.rstrip('/')}/generate HTTP/1.1\r\nHost: {url.netloc}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        ).encode()
        self._timeout_s, self._stall_s = timeout_s, stall_s
        self._idle: list[_Connection] = []
        self._busy: set[_Connection] = set()
        # One read buffer for all: the loop fills it and hands it over before it reads another socket.
        self.buffer = memoryview(bytearray(READ_BYTES))
        self._sweeper: asyncio.TimerHandle | None = None

    async def send(self, body: bytes, flight: Flight, *, expected_tokens: int | None) -> None:
        """Send one request and wait for its end, good or bad; the outcome stands in ``flight``."""
        try:
            connection = self._reusable() or await self._connect()
        except OSError as error:
            flight.sent_at = time.perf_counter()
            flight.fail(flight.sent_at, FailureKind.CONNECT, str(error))
            return
        if self._sweeper is None:
            self._sweep()
        self._busy.add(connection)
        try:
            await connection.request(b"%s%d\r\n\r\n%s" % (self._head, len(body), body), flight, expected_tokens)
        except BaseException:
            connection.close()
            raise
        finally:
            self._busy.discard(connection)
        if connection.reusable:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Close all connections; a request still in flight is recorded as disconnected."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in [*self._idle, *self._busy]:
            connection.close()

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: _Connection(self.buffer), self._host, self._port)
        return connection

    def _reusable(self) -> _Connection | None:
        now = time.perf_counter()
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and now - connection.idle_since < IDLE_REUSE_S:
                return connection
            connection.close()
        return None

    def _sweep(self) -> None:
        """One timer for all deadlines, in place of one a request or, worse, one an event."""
        now = time.perf_counter()
        for connection in self._busy:
            connection.check_deadline(now, self._timeout_s, self._stall_s)
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)


class _Connection(asyncio.BufferedProtocol):
    def __init__(self, buffer: memoryview) -> None:
        self._buffer = buffer
        self._parser = ResponseParser()
        self._flight: Flight | None = None
        self._expected: int | None = None
        self._ended: asyncio.Future[None] | None = None
        self.reusable = False
        self.idle_since = 0.0

    async def request(self, message: bytes, flight: Flight, expected_tokens: int | None) -> None:
        self._parser, self._flight, self._expected = ResponseParser(), flight, expected_tokens
        self._ended = asyncio.get_running_loop().create_future()
        self.reusable = False
        flight.sent_at = time.perf_counter()
        self._transport.write(message)
        await self._ended

    def close(self) -> None:
        self.reusable = False
        self._transport.close()

    def check_deadline(self, now: float, timeout_s: float, stall_s: float) -> None:
        flight = self._flight
        if flight is None:
            return
        if now - flight.sent_at > timeout_s:
            self._fail(now, FailureKind.TIMEOUT, f"not answered within {timeout_s:g} s")
        elif flight.at and now - flight.at[-1] > stall_s:
            self._fail(now, FailureKind.STALLED, f"no token for {stall_s:g} s after {flight.upto[-1]} tokens")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No isinstance: uvloop's transports do not derive from asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        now = time.perf_counter()
        flight = self._flight
        if flight is None:
            # Bytes that nobody asked for: the next answer on this connection could not be trusted.
            self.close()
            return
        parser = self._parser
        try:
            payloads = parser.feed(bytes(self._buffer[:nbytes]))
            if payloads:
                flight.accept(now, payloads)
            if parser.done:
                self._complete(flight)
        except WireError as error:
            self._fail(now, FailureKind.MALFORMED, str(error))
        except ServerReportedError as error:
            self._fail(now, FailureKind.SERVER_ERROR, str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        self.reusable = False
        flight = self._flight
        if flight is None:
            return
        try:
            self._parser.feed_eof()
            self._complete(flight)
        except (WireError, ServerReportedError) as error:
            detail = f"{error} after {flight.upto[-1] if flight.upto else 0} tokens"
            self._fail(time.perf_counter(), FailureKind.DISCONNECTED, f"{detail}: {exc}" if exc else detail)

    def _complete(self, flight: Flight) -> None:
        if self._parser.status != 200:
            body = self._parser.body.decode(errors="replace")
            flight.fail(time.perf_counter(), FailureKind.HTTP_STATUS, f"{self._parser.status}: {body}")
        else:
            flight.finish(self._expected)
        self._release(reusable=self._parser.keep_alive)

    def _fail(self, now: float, kind: FailureKind, detail: str) -> None:
        if self._flight is not None:
            self._flight.fail(now, kind, detail)
        self._release(reusable=False)
        # Aborts rather than closes: the server must see at once that nobody listens.
        self._transport.abort()

    def _release(self, *, reusable: bool) -> None:
        self._flight, self.reusable, self.idle_since = None, reusable, time.perf_counter()
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)
