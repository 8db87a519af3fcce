"""A probe in the stack's interpreter: its answer, its last words, and nothing of it left after its deadline."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import psutil
import pytest

from sglgate.errors import UnfitError
from sglgate.node import Live, live

WRITES = "import json, sys; open(sys.argv[2], 'w').write(json.dumps({'argv': sys.argv[3:]}))"


def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> Live:
    (tmp_path / "probe_it.py").write_text(code)
    monkeypatch.setattr(live, "_PROBES", tmp_path)
    return Live(gpus=False, python=Path(sys.executable), logs=tmp_path / "logs")


def test_its_answer_is_the_file_that_it_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = node(tmp_path, monkeypatch, f"print('noise')\n{WRITES}").probe("it", ["--devices", "2"], 30)

    assert (answer.result, answer.error) == ({"argv": ["--devices", "2"]}, None)


def test_one_that_dies_is_told_by_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = node(tmp_path, monkeypatch, "raise SystemExit('no CUDA here')").probe("it", [], 30)

    assert (answer.result, answer.error) == (None, "no CUDA here")


def test_one_that_hangs_is_killed_with_its_children_and_what_it_wrote_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang = f"{WRITES}\nimport subprocess, time\nsubprocess.Popen(['sleep', '98765'])\ntime.sleep(98765)"
    begun = time.monotonic()
    answer = node(tmp_path, monkeypatch, hang).probe("it", [], 1.5)

    assert time.monotonic() - begun < 10
    assert answer.result == {"argv": []}
    assert "no end within 1.5 s" in answer.error
    deadline = time.monotonic() + 5
    while any(p.info["cmdline"] == ["sleep", "98765"] for p in psutil.process_iter(["cmdline"])):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_without_a_stack_there_is_no_probe() -> None:
    with pytest.raises(UnfitError, match="needs a stack"):
        Live(gpus=False).probe("kernels", [], 1)


def test_one_that_dies_half_way_is_told_by_what_it_wrote_and_by_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = node(tmp_path, monkeypatch, f"{WRITES}\nimport os\nos.abort()").probe("it", [], 30)

    assert answer.result == {"argv": []}
    assert "ended by signal 6" in answer.error


@pytest.mark.parametrize(
    ("commands", "output", "error"),
    [
        ([["no-such-command"], ["echo", "a log"]], "a log\n", None),
        ([["false"], ["echo", "-- No entries --"]], "", "false: no output; echo: -- No entries --"),
    ],
)
def test_a_tool_that_may_not_tell_has_no_output_and_says_so(
    monkeypatch: pytest.MonkeyPatch, commands: list, output: str, error: str | None
) -> None:
    monkeypatch.setattr(live, "TOOLS", {"kernel-log": commands})

    answer = Live(gpus=False).tool("kernel-log")

    assert (answer.output, answer.error) == (output, error)
