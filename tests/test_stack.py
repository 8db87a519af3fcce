"""A stack is what its interpreter says of itself; its parser's answer comes before any launch."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from sglgate import stack as stack_module
from sglgate.config import Candidate
from sglgate.errors import MisuseError
from sglgate.stack import Stack, check_arguments, find_stack, read_stack

FAKE = Path(__file__).parent / "fake_stack" / "python"


def candidate(**arguments: object) -> Candidate:
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    fields = {"name": "c", "profile": "cpu", "file": "c.toml", "reason": "r", "model": "m", "arguments": named}
    return Candidate.model_validate(fields)


def test_the_fingerprint_is_stable_and_knows_sglang(fake_stack: Stack) -> None:
    assert fake_stack.sglang == "0.5.23"
    assert fake_stack.digest == read_stack(FAKE).digest
    assert len(fake_stack.digest) == 12
    assert str(FAKE) not in json.dumps(fake_stack.as_json())


def test_an_interpreter_without_sglang_is_refused() -> None:
    with pytest.raises(MisuseError, match="has no sglang"):
        read_stack(Path(sys.executable))


def test_something_that_does_not_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match=r"--stack: not an executable Python"):
        find_stack(str(tmp_path / "absent"), tmp_path)
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no >&2; exit 3\n")
    broken.chmod(0o755)
    with pytest.raises(MisuseError, match=r"fingerprint.py failed in it: no"):
        read_stack(find_stack(str(broken), tmp_path))


def test_the_option_wins_over_the_variable_over_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    venv = tmp_path / ".stacks" / "cpu" / "bin"
    venv.mkdir(parents=True)
    (venv / "python").symlink_to(sys.executable)
    assert find_stack(None, tmp_path) == venv / "python"
    monkeypatch.setenv("SGLGATE_STACK", str(FAKE))
    assert find_stack(None, tmp_path) == FAKE
    assert find_stack(str(tmp_path / ".stacks" / "cpu"), tmp_path) == venv / "python"


def test_known_arguments_pass_and_the_answer_is_cached(fake_stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    check_arguments(fake_stack, [candidate(page_size=16)], {})

    def no_process(*_: object) -> str:
        pytest.fail("asked again")

    monkeypatch.setattr(stack_module, "run_in_stack", no_process)
    check_arguments(fake_stack, [candidate(page_size=16)], {})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mem_fraction": 0.3}, "has no --mem-fraction; did you mean 'mem-fraction-static'?"),
        ({"pagesize": 1}, "has no --pagesize; did you mean 'page-size'?"),
        ({"zzz": 1}, "has no --zzz; see its --help"),
        ({"page_size": "x"}, "refuses: argument --page-size: invalid int value: 'x'"),
        ({"attention_backend": "fast"}, "invalid choice: 'fast'"),
    ],
)
def test_a_wrong_argument_is_named(fake_stack: Stack, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(MisuseError) as caught:
        check_arguments(fake_stack, [candidate(**arguments)], {})

    assert message in str(caught.value)
    assert str(caught.value).startswith("c.toml: arguments")


def test_a_cache_that_was_cut_is_asked_for_again(fake_stack: Stack, tmp_path: Path) -> None:
    check_arguments(fake_stack, [candidate()], {})
    (path,) = (tmp_path / "cache" / "arguments").iterdir()
    path.write_text(path.read_text()[:20])

    check_arguments(fake_stack, [candidate()], {})

    assert "flags" in json.loads(path.read_text())
