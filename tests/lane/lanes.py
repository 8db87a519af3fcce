"""A lane in a folder of its own, run by pytest against the stand-in stack."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from sglgate.evidence import Evidence, Verdict
from sglgate.run import read_evidence

ROOT = Path(__file__).parents[2]
FAKE_STACK = ROOT / "tests" / "fake_stack" / "python"
#: Geometry of SmolLM2-135M: 30 layers x 3 KV heads x (64 + 64) x 2 bytes = 23040 bytes a token.
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "torch_dtype": "bfloat16",
    "vocab_size": 49152,
    "max_position_embeddings": 8192,
}


@dataclass(frozen=True)
class Outcome:
    """How a lane ended."""

    code: int
    output: str
    folder: Path | None

    @property
    def evidence(self) -> list[Evidence]:
        assert self.folder is not None, self.output
        return read_evidence(self.folder)

    def red(self) -> dict[str, str]:
        """Gate -> reason of every record that is not green."""
        return {e.gate: e.reason for e in self.evidence if e.verdict is not Verdict.PASS}


@dataclass(frozen=True)
class Lane:
    """Starts lanes in a folder of its own."""

    folder: Path

    def command(self, *arguments: str, marker: str = "cpu and not preflight") -> list[str]:
        paths = [
            "--candidates",
            str(self.folder),
            "--reports",
            str(self.folder / "reports"),
            "--stack",
            str(FAKE_STACK),
        ]
        # The cache provider would write into the checkout.
        return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", marker, *paths, *arguments]

    def candidate(
        self, *faults: str, text: str = "", environment: str = "", tp: int = 1, name: str = "fake", top: str = ""
    ) -> None:
        model = self.folder / f"model-tp{tp}"
        model.mkdir(exist_ok=True)
        # Two ranks hold half of the heads: 9 and 3 do not divide, so they are doubled.
        heads = {} if tp == 1 else {"num_attention_heads": 18, "num_key_value_heads": 6, "head_dim": 64}
        (model / "config.json").write_text(json.dumps(CONFIG | heads))
        (self.folder / f"{name}.toml").write_text(
            f'name = "{name}"\n{top}\nreason = "a test"\nmodel = {json.dumps(str(model))}\n'
            f"[arguments]\ntp-size = {tp}\n"
            f"[environment]\nFAKE = {json.dumps(','.join(faults))}\n{environment}\n{text}\n"
        )

    def run(self, *arguments: str, marker: str = "cpu and not preflight") -> Outcome:
        done = subprocess.run(
            self.command(*arguments, marker=marker), cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
        )
        return Outcome(done.returncode, done.stdout + done.stderr, self.newest())

    def newest(self) -> Path | None:
        runs = sorted((self.folder / "reports").glob("*/"))
        return runs[-1] if runs else None

    def start(self, mark: str, *arguments: str) -> subprocess.Popen[bytes]:
        """A lane that goes on while the test does; all its processes bear ``mark``."""
        return subprocess.Popen(
            self.command(*arguments),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LANE_TEST": mark},
            # A shell that runs the tests in the background has it ignored, and a child inherits that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def await_evidence(self, records: int = 1) -> None:
        """Until so many records were written."""
        deadline = time.monotonic() + 60
        while True:
            lines = [path.read_bytes().count(b"\n") for path in self.folder.glob("reports/*/evidence.jsonl")]
            if lines and max(lines) >= records:
                return
            assert time.monotonic() < deadline
            time.sleep(0.02)


def marked(mark: str) -> list[int]:
    """Living processes of a lane that was started with that mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("LANE_TEST") == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found
