"""A stub of an SGLang server: fast, predictable, and breakable on purpose.

It answers ``POST /generate`` as SGLang does (cumulative events, then ``[DONE]``) and ``POST /v1/completions``
for clients that speak only that, and stands where a test or a benchmark needs a server whose truth is known.

    python -m sglgate.load.stub --tok-per-s 200 --tokens-per-event 2

prints ``listening on http://127.0.0.1:PORT`` once it serves.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import Any, Literal, cast

from sglgate.load.loop import fast_loop_factory

Fault = Literal["", "die", "hang", "garbage", "truncated_json", "short", "abort", "error_event", "http_503", "no_done"]

_HEAD = re.compile(rb"(GET|POST) (\S+) HTTP/1\.1\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length:[ ]*(\d+)", re.IGNORECASE)
_OPEN_STREAM = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)
_FIRST_TOKEN_ID = 1000


@dataclass(frozen=True)
class StubConfig:
    """How the stub behaves.

    Attributes:
        tok_per_s: pace of each stream; 0 writes as fast as the client reads.
        prefill_ms: time to the first event.
        tokens_per_event: what a verify step emits; 1 is plain decoding.
        incremental: events carry deltas, as under ``--incremental-streaming-output``.
        events_per_write: events that leave in one write when unpaced; the more, the faster the stub.
        histogram_name: meta_info key of the acceptance histogram (it was renamed after SGLang 0.5.9).
        fault: what goes wrong, in the request numbered ``fault_at`` (counted from 0) and the later ones.
    """

    tok_per_s: float = 0.0
    prefill_ms: float = 0.0
    tokens_per_event: int = 1
    incremental: bool = False
    events_per_write: int = 1
    histogram_name: str = "spec_correct_drafts_histogram"
    fault: Fault = ""
    fault_at: int = 0


def serve(config: StubConfig, port: int = 0) -> None:
    """Serve on 127.0.0.1 until terminated; prints the address first."""

    async def main() -> None:
        state = _State(config)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Connection(state), "127.0.0.1", port)
        print(f"listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        await server.serve_forever()

    with asyncio.Runner(loop_factory=fast_loop_factory()) as runner:
        runner.run(main())


@contextlib.contextmanager
def running(config: StubConfig | None = None, *, cpu: int | None = None) -> Iterator[str]:
    """A stub in a process of its own (on one CPU if asked); yields its base URL."""
    command = [sys.executable, "-m", "sglgate.load.stub"]
    for name, value in asdict(config or StubConfig()).items():
        command += [f"--{name.replace('_', '-')}", str(int(value) if isinstance(value, bool) else value)]
    if cpu is not None:
        command = ["taskset", "-c", str(cpu), *command]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line.startswith("listening on "):
            raise RuntimeError(f"the stub did not start: {line!r}")
        yield line.removeprefix("listening on ").strip()
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


class _State:
    def __init__(self, config: StubConfig) -> None:
        self.config = config
        self.requests = 0

    def next_fault(self) -> Fault:
        number, self.requests = self.requests, self.requests + 1
        return self.config.fault if number >= self.config.fault_at else ""


class _Connection(asyncio.Protocol):
    def __init__(self, state: _State) -> None:
        self._state = state
        self._buffer = b""
        self._writable = asyncio.Event()
        self._writable.set()
        self._stream: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No isinstance: uvloop's transports do not derive from asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._stream is not None:
            self._stream.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return
        length = _LENGTH.search(self._buffer, 0, head_end)
        end = head_end + 4 + (int(length[1]) if length else 0)
        if len(self._buffer) < end:
            return
        request, body = _HEAD.match(self._buffer), self._buffer[head_end + 4 : end]
        self._buffer = self._buffer[end:]
        path = request[2].decode() if request else ""
        if path in ("/generate", "/v1/completions"):
            self._stream = asyncio.ensure_future(self._generate(path, json.loads(body)))
        else:
            self._transport.write(_plain_answer(path))

    async def _generate(self, path: str, body: dict[str, Any]) -> None:
        config, fault = self._state.config, self._state.next_fault()
        if fault == "http_503":
            self._transport.write(_json_answer({"error": "no capacity"}, "503 Service Unavailable"))
            return
        if path == "/generate":
            tokens = int(body["sampling_params"]["max_new_tokens"])
            if not body.get("stream"):
                self._transport.write(_json_answer(_event(0, tokens, tokens, config)))
                return
            chunks = _generate_chunks(tokens - (fault == "short"), config, fault)
        else:
            chunks = _completion_chunks(int(body["max_tokens"]), config)
        self._transport.write(_OPEN_STREAM)
        await self._write_paced(chunks, fault)

    async def _write_paced(self, chunks: tuple[bytes, ...], fault: Fault) -> None:
        config, write = self._state.config, self._transport.write
        if config.prefill_ms:
            await asyncio.sleep(config.prefill_ms / 1000)
        start = asyncio.get_running_loop().time()
        period_s = config.tokens_per_event / config.tok_per_s if config.tok_per_s else 0.0
        if not period_s and config.events_per_write > 1:
            size = config.events_per_write
            chunks = tuple(b"".join(chunks[at : at + size]) for at in range(0, len(chunks), size))
        for number, chunk in enumerate(chunks):
            if fault in ("die", "hang") and number == len(chunks) // 2:
                if fault == "die":
                    os._exit(1)
                await asyncio.sleep(3600)
            if period_s and number:
                # Against the start, not the last event, so that the pace does not drift.
                await asyncio.sleep(start + number * period_s - asyncio.get_running_loop().time())
            write(chunk)
            if not self._writable.is_set():
                await self._writable.wait()
            elif not period_s:
                await asyncio.sleep(0)


def _event(before: int, k: int, tokens: int, config: StubConfig, finish: str = "length") -> dict[str, Any]:
    """SGLang's event after ``k`` of ``tokens`` tokens (layout of 0.5.23, tokenizer_manager.py).

    ``before`` is the count in the event before it, from where a delta starts.
    """
    first = before if config.incremental else 0
    meta: dict[str, Any] = {
        "id": "f3c1a6a2b94e4c6f8a6f4e1d2b7c9a05",
        "finish_reason": {"type": finish, "length": tokens} if k == tokens else None,
        "prompt_tokens": 20,
        "weight_version": "default",
        "total_retractions": 0,
        "completion_tokens": k,
        "cached_tokens": 1,
    }
    if k == tokens:
        meta["e2e_latency"] = 0.1
        if config.tokens_per_event > 1:
            # The first token is the prefill's; each verify step accepts all but one of what it emits.
            steps, rest = divmod(tokens - 1, config.tokens_per_event)
            histogram = [0] * config.tokens_per_event
            histogram[-1] += steps
            histogram[rest - 1] += 1 if rest else 0
            meta |= {"spec_verify_ct": sum(histogram), config.histogram_name: histogram}
    return {
        "text": "word " * (k - first),
        "output_ids": list(range(_FIRST_TOKEN_ID + first, _FIRST_TOKEN_ID + k)),
        "meta_info": meta,
    }


@lru_cache(maxsize=64)
def _generate_chunks(tokens: int, config: StubConfig, fault: Fault) -> tuple[bytes, ...]:
    """The body of one answer, a chunk an event; built once, since the stub must outrun its clients."""
    counts = [*range(1, tokens, config.tokens_per_event), tokens]
    chunks = [
        _chunk(json.dumps(_event(before, k, tokens, config), separators=(",", ":")))
        for before, k in zip([0, *counts], counts, strict=False)
    ]
    middle = len(chunks) // 2
    if fault == "garbage":
        chunks[middle] = b"this is no chunk\r\n"
    elif fault == "truncated_json":
        chunks[middle] = _chunk('{"text":"wo')
    elif fault == "abort":
        aborted = _event(counts[-2], tokens, tokens, config, finish="abort")
        chunks[-1] = _chunk(json.dumps(aborted, separators=(",", ":")))
    elif fault == "error_event":
        chunks[middle:] = [_chunk('{"error":{"message":"out of pages","code":400}}')]
    # The end follows the last event at once, whatever the pace.
    chunks[-1] += b"0\r\n\r\n" if fault == "no_done" else _chunk("[DONE]") + b"0\r\n\r\n"
    return tuple(chunks)


@lru_cache(maxsize=64)
def _completion_chunks(tokens: int, config: StubConfig) -> tuple[bytes, ...]:
    """The body of one OpenAI completion stream, usage last."""
    head = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "stub"}
    chunks = []
    for k in [*range(1, tokens, config.tokens_per_event), tokens]:
        new = 1 if k == 1 else min(config.tokens_per_event, k - 1)
        choice = {"index": 0, "text": "word " * new, "finish_reason": "length" if k == tokens else None}
        chunks.append(_chunk(json.dumps({**head, "choices": [choice]})))
    usage = {"prompt_tokens": 20, "completion_tokens": tokens, "total_tokens": 20 + tokens}
    chunks[-1] += _chunk(json.dumps({**head, "choices": [], "usage": usage})) + _chunk("[DONE]") + b"0\r\n\r\n"
    return tuple(chunks)


def _chunk(payload: str) -> bytes:
    event = f"data: {payload}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(event), event)


def _json_answer(value: object, status: str = "200 OK") -> bytes:
    body = json.dumps(value).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _plain_answer(path: str) -> bytes:
    if path == "/v1/models":
        return _json_answer({"object": "list", "data": [{"id": "stub", "object": "model", "owned_by": "sglgate"}]})
    if path in ("/get_model_info", "/model_info"):
        return _json_answer({"model_path": "stub", "is_generation": True})
    return _json_answer({})


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sglgate.load.stub")
    parser.add_argument("--port", type=int, default=0)
    for field in fields(StubConfig):
        kind = type(field.default)
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=(lambda text: bool(int(text))) if kind is bool else kind,
            default=field.default,
        )
    args = vars(parser.parse_args())
    serve(port=args.pop("port"), config=StubConfig(**args))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        _main()
