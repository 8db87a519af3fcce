"""Whatever happens to a run, its evidence is whole and shown: killed at any moment, a full disk, hostile text."""

from __future__ import annotations

import json
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from sglgate.cli import main
from sglgate.run import read_evidence, read_run

ROOT = Path(__file__).parents[2]
GEOMETRY = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 576, "num_hidden_layers": 30,
            "num_attention_heads": 9, "num_key_value_heads": 3, "torch_dtype": "bfloat16", "vocab_size": 49152,
            "max_position_embeddings": 8192}  # fmt: skip
HOSTILE = "<script>alert(1)</script>\"'&]]> ../../../etc/passwd \u0007\u001b[31m \U0001f600 " + "x" * 10_000


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A lane with one candidate; its store is in the same folder."""
    monkeypatch.setenv("SGLGATE_STORE", str(tmp_path / "history.sqlite"))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(GEOMETRY))
    (tmp_path / "fake.toml").write_text(f'name = "fake"\nreason = "a test"\nmodel = "{tmp_path / "model"}"\n')
    stack = ROOT / "tests" / "fake_stack" / "python"
    paths = [f"--candidates={tmp_path}", f"--reports={tmp_path / 'reports'}", f"--stack={stack}"]
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "cpu and not preflight", *paths]


def run_of(folder: Path) -> Path | None:
    return next((folder / "reports").glob("*-cpu-*"), None)


def lines(run: Path) -> int:
    return (run / "evidence.jsonl").read_bytes().count(b"\n") if (run / "evidence.jsonl").exists() else 0


MOMENTS: dict[str, Callable[[Path], bool]] = {
    "described": lambda run: (run / "run.json").exists(),
    "launching": lambda run: any((run / "logs").glob("*")),
    "first record": lambda run: lines(run) >= 1,
    "most judged": lambda run: lines(run) >= 6,
    "closing": lambda run: (run / "run.json").exists() and read_run(run).finished is not None,
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_run_that_is_killed_is_whole_is_shown_and_counts_as_cut(
    command: list[str], tmp_path: Path, moment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert before.returncode == 0, before.stdout
    (first,) = (tmp_path / "reports").glob("*-cpu-*")
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while True:
        run = next((r for r in (tmp_path / "reports").glob("*-cpu-*") if r != first), None)
        if run is not None and MOMENTS[moment](run):
            break
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()

    recorded = len(read_evidence(run))
    assert main(["report", str(run)]) == (0 if read_run(run).finished else 1)
    assert (run / "index.html").stat().st_size > 1000
    if not read_run(run).finished:
        assert "did not end" in (run / "index.html").read_text()
    assert main(["history", "import", str(run)]) == 0
    capsys.readouterr()
    main(["history", "list", "--json"])
    known = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert set(known) == {first.name, run.name}, "the store opens, and what it held is there"
    assert (known[run.name]["finished"] is None) == (read_run(run).finished is None)
    assert len(read_evidence(run)) == recorded


@pytest.mark.parametrize("limit", [1000, 4200, 5000, 6000, 12_000])
def test_a_full_disk_is_said_in_one_line_and_what_was_written_is_whole(
    command: list[str], tmp_path: Path, limit: int
) -> None:
    def no_file_beyond() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, preexec_fn=no_file_beyond, check=False)

    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert "INTERNALERROR" not in done.stdout
    assert re.search(r"cannot be written(:| to) .*(File too large|No space left)", done.stdout), done.stdout
    run = run_of(tmp_path)
    assert run is not None
    read_evidence(run)
    assert not [path for path in run.iterdir() if path.name.startswith(".")], "no half of a file is left"


def test_hostile_text_of_candidate_and_log_stays_text(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "fake.toml").write_text(
        f'name = "fake"\nreason = {json.dumps(HOSTILE, ensure_ascii=False)}\nmodel = "{tmp_path / "model"}"\n'
        f'[environment]\nFAKE = "dies-in-weights"\nFAKE_SAYS = {json.dumps(json.dumps(HOSTILE))}\n'
    )
    outside = set(tmp_path.iterdir())

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 1, done.stdout
    run = run_of(tmp_path)
    assert run is not None
    page = (run / "index.html").read_text()
    assert "<script>alert" not in page
    assert "\u0007" not in page
    ElementTree.parse(run / "junit.xml")
    for kind in ("md", "prometheus", "junit"):
        assert main(["report", str(run), "--format", kind]) == 1
    others = {path.name.partition(".")[0] for path in set(tmp_path.iterdir()) - outside}
    assert others <= {"reports", "cache", "history", "node"}
    assert {path.name for path in (run / "logs").iterdir()} == {"fake.1.log"}
