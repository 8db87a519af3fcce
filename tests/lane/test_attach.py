"""A server that runs already is judged by the gates that need no launch, and left as it was."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sglgate.evidence import Evidence, Verdict
from sglgate.launch.ports import free_port
from sglgate.run import read_evidence, read_run

ROOT = Path(__file__).parents[2]
FAKE = ROOT / "tests" / "fake_stack" / "python"
GEOMETRY = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 576, "num_hidden_layers": 30,
            "num_attention_heads": 9, "num_key_value_heads": 3, "torch_dtype": "bfloat16", "vocab_size": 49152,
            "max_position_embeddings": 8192}  # fmt: skip


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """A server that somebody else started; its log is ``theirs.log``."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(GEOMETRY))
    number = free_port()
    arguments = ["--device", "cpu", "--attention-backend", "torch_native", "--mem-fraction-static", "0.3"]
    command = [FAKE, "-m", "sglang.launch_server", "--model-path", tmp_path / "model", "--port", str(number)]
    with (
        (tmp_path / "theirs.log").open("wb") as log,
        subprocess.Popen([*command, *arguments], stdout=log, stderr=log) as server,
    ):
        while b"fired up" not in (tmp_path / "theirs.log").read_bytes():
            assert server.poll() is None
            time.sleep(0.05)
        yield number
        assert server.poll() is None, "the suite has ended a server that is not its own"
        server.kill()


def attach(folder: Path, url: str, *more: str, arguments: str = "") -> subprocess.CompletedProcess[str]:
    text = f'name = "fake"\nreason = "a test"\nmodel = "{folder / "model"}"\n[arguments]\n{arguments}\n'
    (folder / "fake.toml").write_text(text + "[expect.kv]\nrelaunch = true\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "cpu and not preflight"]
    paths = [f"--candidates={folder}", f"--reports={folder / 'reports'}", f"--attach={url}"]
    return subprocess.run(
        [*command, *paths, *more],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def verdicts(folder: Path) -> dict[str, Verdict]:
    (run,) = (folder / "reports").glob("*-cpu-*")
    worst: dict[str, Evidence] = {}
    for record in read_evidence(run):
        worst.setdefault(record.gate, record)
    return {gate: record.verdict for gate, record in worst.items()}


def test_with_its_log_all_but_launches_is_judged(tmp_path: Path, port: int) -> None:
    done = attach(tmp_path, f"http://localhost:{port}", f"--attach-log={tmp_path / 'theirs.log'}")

    assert done.returncode == 1, done.stdout + done.stderr
    found = verdicts(tmp_path)
    launches = {"as_declared", "two_launches_agree"}
    assert {gate for gate, verdict in found.items() if verdict is Verdict.NOT_EXERCISED} == launches
    assert {gate for gate, verdict in found.items() if verdict is Verdict.PASS} > {"equal_tokens", "predicted"}
    (run,) = (tmp_path / "reports").glob("*-cpu-*")
    info = read_run(run)
    assert info.launches[0]["resolved"]["mem_fraction_static"] == 0.3
    assert info.stack["packages"] == {"sglang": "0.5.23"}
    (log,) = (run / "logs").iterdir()
    assert not log.is_symlink()
    assert b"KV Cache is allocated" in log.read_bytes()


def test_without_its_log_nothing_is_green_that_needs_one(tmp_path: Path, port: int) -> None:
    assert attach(tmp_path, f"http://127.0.0.1:{port}").returncode == 1

    assert set(verdicts(tmp_path).values()) == {Verdict.NOT_EXERCISED}


def test_the_fingerprint_comes_from_the_stack_that_is_named_if_the_release_is_the_servers(
    tmp_path: Path, port: int
) -> None:
    attach(tmp_path, f"http://127.0.0.1:{port}", f"--stack={FAKE}")

    (run,) = (tmp_path / "reports").glob("*-cpu-*")
    assert read_run(run).stack["python"]


def test_a_stack_of_another_release_is_refused(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_VERSION", "0.5.9")
    port = request.getfixturevalue("port")

    done = attach(tmp_path, f"http://127.0.0.1:{port}", f"--stack={FAKE}")

    assert done.returncode == 2
    assert "holds sglang 0.5.23, the server is 0.5.9" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("url", "more", "arguments", "says"),
    [
        ("http://127.0.0.1:{port}", (), "tp-size = 2", "tp_size is 1, not 2"),
        ("http://127.0.0.1:{port}", ("--attach-log=/absent",), "", "no such log"),
        ("http://10.0.0.1:30000", (), "", "not a server on this machine"),
        ("https://127.0.0.1:{port}", (), "", "not a server on this machine"),
        ("http://127.0.0.1:1", (), "", "no SGLang server"),
    ],
)
def test_a_server_that_is_not_the_candidates_is_refused(
    tmp_path: Path, port: int, url: str, more: tuple[str, ...], arguments: str, says: str
) -> None:
    done = attach(tmp_path, url.format(port=port), *more, arguments=arguments)

    assert done.returncode == 2, done.stdout
    assert says in done.stdout + done.stderr
    assert not (tmp_path / "reports").exists()
