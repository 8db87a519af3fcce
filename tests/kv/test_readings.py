"""The hook that prints the readings of a sizing, in a stand-in for SGLang's modules."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sglgate.kv.checks import READINGS_PATH, exact_readings

COMMON = "def get_available_gpu_memory(device, gpu_id, distributed=False, cpu_group=None):\n    return 21.25 + gpu_id\n"
USE = "from sglang.srt.utils.common import get_available_gpu_memory\n"
ONE_MODULE = USE + "class ModelRunner:\n    def profile_max_num_token(self): pass\n"
LAYOUTS = {
    "0.5.23": ("distributed/bootstrap", "mem_cache/kv_cache_configurator", USE, USE),
    "0.5.9": ("model_executor/model_runner", "model_executor/model_runner_kv_cache_mixin", USE, USE),
    "0.5.5": ("model_executor/model_runner", "model_executor/model_runner", ONE_MODULE, ONE_MODULE),
}


def stand_in(root, layout):
    first, second, first_text, second_text = LAYOUTS[layout]
    for path, text in (("utils/common", COMMON), (first, first_text), (second, second_text)):
        file = root / "sglang" / "srt" / f"{path}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    names = [f"sglang.srt.{path.replace('/', '.')}" for path in (first, second)]
    return (
        f"import {names[0]} as a, {names[1]} as b\n"
        "a.get_available_gpu_memory('cpu', 0)\n"
        "a.get_available_gpu_memory('cpu', 1, distributed=False)\n"
        "b.get_available_gpu_memory('cpu', 0, distributed=True)\n"
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_two_readings_that_count_are_printed_with_their_names(layout, tmp_path):
    code = stand_in(tmp_path, layout)
    path = os.pathsep.join((str(READINGS_PATH), str(tmp_path)))
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": path}
    )
    assert run.stdout.splitlines() == ["kv reading: pre=22.25 GiB", "kv reading: avail=21.25 GiB"]
    log = tmp_path / "server.log"
    log.write_text(run.stdout)
    assert exact_readings(log) == (22.25, 21.25)


def test_a_log_without_them_has_none(tmp_path):
    log = tmp_path / "server.log"
    log.write_text("kv reading: pre=22.25 GiB\n")
    assert exact_readings(log) is None


def test_the_hook_imports_nothing_heavy():
    text = (Path(READINGS_PATH) / "sitecustomize.py").read_text()
    assert "import torch" not in text
    assert "import sglang" not in text
