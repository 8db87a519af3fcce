"""The suite process is light: it collects at once, and never with torch or sglang in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "sglang", "scipy", "numpy", "transformers", "jinja2", "sqlalchemy")


@pytest.mark.parametrize("lane", ["cpu", "blackwell"])
def test_collection_imports_neither_torch_nor_sglang(lane: str) -> None:
    code = (
        "import sys, pytest\n"
        f"code = pytest.main(['--collect-only', '-q', '-p', 'no:cacheprovider', '-m', {lane!r}])\n"
        f"print('CODE', int(code), [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.stdout.strip().splitlines()[-1] == "CODE 0 []", done.stdout + done.stderr


def test_no_module_of_the_suite_imports_the_stack() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        if "stack_side" in path.parts:
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            words = line.split()
            assert not (words[:1] in (["import"], ["from"]) and words[1].partition(".")[0] in ("torch", "sglang")), path
