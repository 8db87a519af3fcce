"""The drift gate on real servers: one layer's output off by a few percent is red, a relaunch is green.

The model is small and serves in bf16: its rounding alone moves a token by 0.03 nats on average, as far as these few
percent do. The mean drift is therefore blind here, and the systematic drift is not.
"""

import json
import shutil
from pathlib import Path

import pytest

from sglgate.allreduce.answers import LOADS, collect, read_texts
from sglgate.allreduce.drift import Answers, Bound, drift, judge
from sglgate.allreduce.systematic import judge_systematic
from sglgate.config import Candidate, load_profiles
from sglgate.launch.server import Server
from sglgate.stack import read_stack
from sglgate.venvs import cache_folder

pytestmark = pytest.mark.stack

ROOT = Path(__file__).parents[2]
# Read now: every test has a cache of its own.
MODEL = cache_folder() / "models" / "smollm2-135m-instruct"
# What one layer adds to the hidden state: its attention's output and its MLP's.
TENSORS = ("model.layers.15.self_attn.o_proj.weight", "model.layers.15.mlp.down_proj.weight")
TEXTS = read_texts(ROOT / "suites" / "allreduce" / "texts.toml")


def perturbed(folder: Path, factor: float) -> Path:
    """A copy of the model with what one layer adds scaled."""
    import numpy as np

    shutil.copytree(MODEL, folder, symlinks=False)
    file = folder / "model.safetensors"
    raw = bytearray(file.read_bytes())
    header_bytes = int.from_bytes(raw[:8], "little")
    entries = json.loads(raw[8 : 8 + header_bytes])
    for tensor in TENSORS:
        assert entries[tensor]["dtype"] == "BF16"
        start, end = (8 + header_bytes + offset for offset in entries[tensor]["data_offsets"])
        bf16 = np.frombuffer(raw[start:end], dtype=np.uint16)
        scaled = (bf16.astype(np.uint32) << 16).view(np.float32) * np.float32(factor)
        raw[start:end] = ((scaled.view(np.uint32) + 0x8000) >> 16).astype(np.uint16).tobytes()
    file.write_bytes(raw)
    return folder


def test_a_perturbed_layer_is_red_and_a_relaunch_is_green(stack_python: Path, tmp_path: Path) -> None:
    if not MODEL.exists():
        pytest.skip(f"no model at {MODEL}; ci/quickstart makes it")
    profile = load_profiles(ROOT / "fixtures" / "profiles")["cpu"]
    stack = read_stack(stack_python)
    candidate = Candidate.model_validate(
        {
            "name": "drift",
            "profile": "cpu",
            "file": "drift.toml",
            "reason": "tests",
            "model": str(MODEL),
            "arguments": {**profile.arguments, "max-total-tokens": 4096},
            "environment": dict(profile.environment),
        }
    )

    def said(model: Path, name: str) -> dict[str, Answers]:
        with Server(candidate, profile, stack, str(model), tmp_path / f"{name}.log") as server:
            return {load: collect(server.client, TEXTS, load, answer_tokens=4, deadline_s=200) for load in LOADS}

    alone, loaded = LOADS
    first = said(MODEL, "first")
    again = said(MODEL, "again")
    bound = Bound.of([drift(first[alone], first[loaded])])
    for load in LOADS:
        found = judge(first[load], again[load], bound, load=load)
        assert found.verdict == "PASS", found.reason
    found = judge_systematic(first, again)
    assert found.verdict == "PASS", found.reason
    found = judge_systematic(first, said(perturbed(tmp_path / "model", 1.06), "broken"))
    assert found.verdict == "FAIL", found.reason
    print(bound, found.reason)
