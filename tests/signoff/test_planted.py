"""A stack that differs by one planted fault, judged by the whole lane: found, sized within its interval, attributed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sglgate.signoff import Decision, Dossier, Item, Kind, build, read_side

ROOT = Path(__file__).parents[2]
FAKE = ROOT / "tests" / "fake_stack" / "python"
GEOMETRY = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 576, "num_hidden_layers": 30,
            "num_attention_heads": 9, "num_key_value_heads": 3, "torch_dtype": "bfloat16", "vocab_size": 49152,
            "max_position_embeddings": 8192}  # fmt: skip
SPEED = """[environment]
FAKE_STEP_MS = "150"
[expect.kv]
fill = 0
[expect.speed]
min_tok_per_s = 1
launches = 4
requests = 2
output_tokens = 8
"""

#: The profile pins the fraction: left out here, so that the release's default shows.
FRACTION = """[arguments]
mem-fraction-static = false
[expect.kv]
min_tokens = 3000
"""


def sign_off(folder: Path, planted: dict[str, str], text: str) -> Dossier:
    """Run the lane on the stand-in, and on the stand-in with ``planted`` in its environment; compare."""
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text(json.dumps(GEOMETRY))
    (folder / "fake.toml").write_text(f'name = "fake"\nreason = "a test"\nmodel = "{folder / "model"}"\n{text}')
    wrapper = folder / "python"
    exports = "".join(f"export {name}='{value}'\n" for name, value in planted.items())
    wrapper.write_text(f'#!/bin/sh\n{exports}exec {FAKE} "$@"\n')
    wrapper.chmod(0o755)
    sides = []
    for name, stack in (("old", FAKE), ("new", wrapper)):
        reports = folder / name
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "cpu and (launch or kv)"]
        paths = [f"--candidates={folder}", f"--reports={reports}", f"--stack={stack}"]
        done = subprocess.run([*command, *paths], cwd=ROOT, capture_output=True, text=True, timeout=180, check=False)
        if "the client is the limit" in done.stdout:
            pytest.skip("other work holds this machine up: the lane calls it UNFIT, as it should")
        assert done.returncode == 0, done.stdout + done.stderr
        sides.append(read_side(next(reports.glob("*-cpu-*"))))
    return build(*sides)


def only(dossier: Dossier) -> Item:
    assert dossier.decision is Decision.NO_GO
    (item,) = [item for item in dossier.items if item.kind is not Kind.GAIN]
    return item


def test_a_delay_of_5_percent_is_found_sized_and_put_down_to_no_argument(tmp_path: Path) -> None:
    item = only(sign_off(tmp_path, {"FAKE_SLOWER": "1.05"}, SPEED))

    assert (item.kind, item.gate, item.metric) == (
        Kind.REGRESSION,
        "speed_over_launches",
        "chat@1, tok/s over launches",
    )
    assert item.change is not None
    # Four launches on a quiet machine make an interval of a quarter of a percent to each side, and one of 95 % misses
    # the truth now and then: by half a percent it must not.
    assert item.change.low - 0.005 <= 1 / 1.05 - 1 <= item.change.high + 0.005
    assert "no argument, default or package differs" in item.causes[0]


def test_an_identical_stack_is_go(tmp_path: Path) -> None:
    assert sign_off(tmp_path, {}, FRACTION).decision is Decision.GO


def test_a_smaller_default_fraction_is_found_sized_and_named(tmp_path: Path) -> None:
    item = only(sign_off(tmp_path, {"FAKE_DEFAULT_FRACTION": "0.855"}, FRACTION))

    assert (item.kind, item.metric) == (Kind.REGRESSION, "KV pool")
    assert item.change is not None
    assert item.change.value == pytest.approx(-0.05, abs=0.001)
    assert item.causes[-1] == "default changed: mem_fraction_static 0.9 -> 0.855"


def test_other_answers_are_found_and_shown(tmp_path: Path) -> None:
    item = only(sign_off(tmp_path, {"FAKE_ANSWER": " Lyon."}, ""))

    assert item.kind is Kind.ANSWERS_CHANGED
    assert (item.old, item.new) == (" Paris.", " Lyon.")
    assert "3 of 3 answers changed" in item.text
