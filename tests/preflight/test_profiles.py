"""Profiles of smaller hosts: the same candidates as far as they fit, and no check that such a host cannot have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sglgate.config import Candidate, load_profiles
from sglgate.config.candidate_files import fitting
from sglgate.errors import MisuseError

ROOT = Path(__file__).parents[2]
PROFILES = load_profiles(ROOT / "fixtures" / "profiles")


def candidate(**arguments: object) -> Candidate:
    data = {"name": "one", "profile": "blackwell", "file": "f", "reason": "r", "model": "m", "arguments": arguments}
    return Candidate.model_validate(data)


def test_a_profile_takes_what_fits_it_and_says_when_nothing_does() -> None:
    small, large = candidate(), candidate(**{"tp-size": 8})

    assert fitting([small, large], PROFILES["blackwell-2"]) == [small]
    assert fitting([small, large], PROFILES["blackwell"]) == [small, large]
    assert fitting([large], PROFILES["cpu"]) == [large]
    with pytest.raises(MisuseError, match="runs on 4 GPUs"):
        fitting([large], PROFILES["blackwell-4"])


@pytest.mark.parametrize(
    ("profile", "there", "absent"),
    [
        ("blackwell", {"test_all_ranks", "test_two_ranks", "test_peers", "test_right_gpus"}, {"test_as_pinned"}),
        ("blackwell-2", {"test_two_ranks", "test_peers"}, {"test_all_ranks"}),
        ("blackwell-1", {"test_link", "test_right_gpus"}, {"test_all_ranks", "test_two_ranks", "test_peers"}),
        ("cpu", {"test_two_ranks", "test_kernels", "test_idle"}, {"test_all_ranks", "test_peers", "test_right_gpus"}),
    ],
)
def test_a_lane_has_the_checks_that_its_machine_can_have(profile: str, there: set, absent: set, tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text('name = "one"\nreason = "a test"\nmodel = "m"\n')
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q"]
    argv += ["-m", f"{profile} and preflight", f"--candidates={tmp_path}"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    names = {line.rpartition("::")[2] for line in done.stdout.splitlines() if "::" in line}
    assert there <= names, done.stdout + done.stderr
    assert not absent & names
