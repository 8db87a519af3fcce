"""A run enters the history by itself when it ends; a history that cannot be written changes no verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from sglgate.store import Filter, Store, runs

ROOT = Path(__file__).parents[2]
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 576, "num_hidden_layers": 30,
    "num_attention_heads": 9, "num_key_value_heads": 3, "torch_dtype": "bfloat16", "vocab_size": 49152,
    "max_position_embeddings": 8192,
}  # fmt: skip


def lane(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "model").mkdir(exist_ok=True)
    (folder / "model" / "config.json").write_text(json.dumps(CONFIG))
    (folder / "fake.toml").write_text(f'name = "fake"\nreason = "a test"\nmodel = "{folder / "model"}"\n')
    options = ["--candidates", folder, "--reports", folder / "reports", "--stack", ROOT / "tests/fake_stack/python"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "cpu and launch", *map(str, options)],
        cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_a_run_that_ends_is_in_the_history(tmp_path: Path) -> None:
    done = lane(tmp_path)

    assert done.returncode == 0, done.stdout
    with Store(str(tmp_path / "reports" / "history.sqlite")) as store:
        (run,) = runs(store, Filter())
    assert (run.verdict, run.green == run.total > 0) == ("PASS", True)
    assert (tmp_path / "reports" / run.name).is_dir()


def test_a_history_that_cannot_be_written_is_said_and_changes_no_verdict(tmp_path: Path) -> None:
    done = lane(tmp_path, SGLGATE_STORE=str(ROOT / "README.md"))

    assert done.returncode == 0, done.stdout
    assert "not in the history" in done.stdout
