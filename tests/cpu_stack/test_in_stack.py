"""Runs the checks that need torch inside the stack's interpreter; this process never imports it."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STACK = Path(os.environ.get("SGLGATE_STACK", ROOT / ".stacks/cpu/bin/python"))

pytestmark = pytest.mark.stack


def in_stack(*arguments, cpu_engine=True):
    assert STACK.exists(), f"no stack interpreter at {STACK}: run ci/quickstart or set SGLGATE_STACK"
    environment = {name: value for name, value in os.environ.items() if name != "SGLANG_USE_CPU_ENGINE"}
    if cpu_engine:
        environment["SGLANG_USE_CPU_ENGINE"] = "1"
    return subprocess.run(
        [str(STACK), *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )


def test_every_op_agrees_with_its_slow_reference():
    result = in_stack("-m", "unittest", "discover", "-s", "tests/cpu_stack/in_stack", "-t", ".", "-p", "check_*.py")
    assert result.returncode == 0, result.stderr
    ran = re.search(r"Ran (\d+) tests", result.stderr)
    assert ran is not None
    assert int(ran[1]) >= 20, result.stderr


def test_sgl_kernel_is_ours_on_the_cpu_engine():
    result = in_stack("-c", "import sgl_kernel; print(sgl_kernel.__file__)")
    assert "sglgate_cpu_stack" in result.stdout, result.stderr


def test_without_the_cpu_engine_the_real_sgl_kernel_is_found():
    result = in_stack(
        "-c", "from importlib.util import find_spec; print(find_spec('sgl_kernel').origin)", cpu_engine=False
    )
    assert result.stdout.strip().endswith("site-packages/sgl_kernel/__init__.py"), result.stderr
