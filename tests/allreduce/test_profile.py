import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sglgate.allreduce import profile
from sglgate.allreduce.profile import ProfileError, decode_step_ms, profile_decode
from sglgate.launch.client import Client, ServerError


class FakeProfiler(BaseHTTPRequestHandler):
    """Writes one trace a rank, as SGLang names them; ``server.ranks`` of them, the last one cut short."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked = asked
        if self.server.status == 200:
            for rank in range(self.server.ranks):
                whole = gzip.compress(json.dumps({"traceEvents": [rank]}).encode())
                data = whole[:-4] if rank == self.server.cut else whole
                (Path(asked["output_dir"]) / f"1700000000-TP-{rank}.trace.json.gz").write_bytes(data)
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), FakeProfiler) as fake:
        fake.ranks, fake.cut, fake.status = 2, None, 200
        thread = threading.Thread(target=fake.serve_forever)
        thread.start()
        yield fake
        fake.shutdown()
        thread.join()


def profiled(fake: ThreadingHTTPServer, folder: Path, generated: list[int], deadline_s: float = 10) -> list[Path]:
    with Client(fake.server_port) as client:
        return profile_decode(client, generated.append, folder, steps=4, ranks=2, deadline_s=deadline_s)


@pytest.fixture(autouse=True)
def _no_prefill_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "PREFILL_S", 0.01)


def test_every_ranks_trace_comes_back_in_order(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    generated: list[int] = []
    traces = profiled(server, tmp_path / "p", generated)
    assert [json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"] for trace in traces] == [[0], [1]]
    assert server.asked["num_steps"] == 4
    assert generated[0] > 4, "the generation must outlast the profiled steps"


def test_a_rank_without_a_trace_is_an_error(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    server.ranks = 1
    with pytest.raises(ProfileError, match="1 of 2 ranks wrote a profile"):
        profiled(server, tmp_path, [], deadline_s=0.5)


def test_a_trace_that_is_still_being_written_does_not_count(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    server.cut = 1
    with pytest.raises(ProfileError, match="1 of 2 ranks"):
        profiled(server, tmp_path, [], deadline_s=0.5)


def test_a_server_that_refuses_to_profile_is_an_error(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    server.status = 400
    with pytest.raises(ServerError, match="HTTP 400"):
        profiled(server, tmp_path, [])


def test_a_steps_time_is_the_slope_between_two_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(profile.time, "perf_counter", lambda: now[0])

    def generate(tokens: int) -> None:
        now[0] += 0.5 + 0.02 * tokens

    assert decode_step_ms(generate, tokens=10) == pytest.approx(20.0)
