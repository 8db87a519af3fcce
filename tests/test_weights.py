"""Deadlines grow with the weights, and with a slow disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglgate.config.profile import Deadlines
from sglgate.weights import deadlines_for, disk_bytes_per_s, scaled, weight_bytes


def test_only_weights_are_counted_and_a_disk_has_a_speed(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model-1.safetensors").write_bytes(b"x" * 3000)
    (tmp_path / "model-2.safetensors").write_bytes(b"x" * 2000)

    assert weight_bytes(tmp_path) == 5000
    rate = disk_bytes_per_s(tmp_path)
    assert rate is not None
    assert rate > 0


def test_a_folder_without_weights_has_none(tmp_path: Path) -> None:
    assert weight_bytes(tmp_path) == 0
    assert disk_bytes_per_s(tmp_path) is None
    assert deadlines_for(Deadlines(), tmp_path) == Deadlines()
    assert deadlines_for(Deadlines(), tmp_path / "absent") == Deadlines()


@pytest.mark.parametrize(
    ("total_bytes", "bytes_per_s", "weights_s"),
    [
        (600 * 10**9, 1e9, 60 + 3 * 600),
        (600 * 10**9, 10e9, 600),  # the profile's own, which is longer
        (10**6, 1.0, 600),
        (600 * 10**9, None, 600),
    ],
)
def test_the_loading_phase_alone_grows(total_bytes: int, bytes_per_s: float | None, weights_s: float) -> None:
    found = scaled(Deadlines(), total_bytes, bytes_per_s)

    assert found.weights_s == weights_s
    assert found.model_copy(update={"weights_s": 600.0}) == Deadlines()
