"""A model that was cut, half downloaded or garbled on disk is found without reading its weights."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from sglgate.node.model_files import inspect_model


def shard(path: Path, size: int = 16) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * size)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text("{}")
    for name in ("a.safetensors", "b.safetensors"):
        shard(tmp_path / name)
    index = {"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    return tmp_path


def test_a_whole_model_has_no_problem(model: Path) -> None:
    found = inspect_model(model)

    assert (found.problems, found.files) == ((), 2)


def test_a_hubs_snapshot_of_links_counts_by_what_they_lead_to(model: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    for file in [path for path in model.iterdir() if path.is_file()]:
        (snapshot / file.name).symlink_to(file)
    assert inspect_model(snapshot).problems == ()
    (model / "a.safetensors").unlink()
    assert "a.safetensors: cannot be read" in inspect_model(snapshot).problems[0]


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        (lambda m: (m / "b.safetensors").unlink(), "b.safetensors is missing"),
        (lambda m: (m / "a.safetensors").write_bytes((m / "a.safetensors").read_bytes()[:-1]), "its header needs"),
        (lambda m: (m / "a.safetensors").write_bytes(b"\xff" * 64), "its header is nonsense"),
        (lambda m: (m / "a.safetensors").write_bytes(b""), "cannot be read"),
        (lambda m: (m / "config.json").unlink(), "config.json: No such file"),
        (lambda m: (m / "config.json").write_text("{"), "config.json is no JSON"),
        (lambda m: (m / "model.safetensors.index.json").write_text("[]"), "cannot be read"),
        (lambda m: [p.unlink() for p in m.glob("*.safetensors*")], "no *.safetensors"),
    ],
)
def test_what_is_wrong_is_named(model: Path, harm, problem: str) -> None:
    harm(model)

    assert any(problem in text for text in inspect_model(model).problems), inspect_model(model).problems
