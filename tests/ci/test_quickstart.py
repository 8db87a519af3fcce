"""Quickstart redoes nothing that is whole, and repairs what is not."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def quickstart() -> ModuleType:
    spec = importlib.util.spec_from_file_location("quickstart", ROOT / "ci" / "quickstart.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def installs(quickstart: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Counts installations; a venv is made in no time."""

    def make_venv(argv: list[str], *_: object) -> None:
        python = Path(argv[-1]) / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text("#!/bin/sh\nexit 0\n")
        python.chmod(0o755)

    monkeypatch.setattr(quickstart, "run_logged", make_venv)
    monkeypatch.setenv("SGLGATE_CACHE", str(tmp_path / "cache"))
    return []


def make_distribution(venv: Path, content: bytes = b"x = 1\n") -> Path:
    site = venv / "lib" / "python3.11" / "site-packages"
    (site / "thing-1.0.dist-info").mkdir(parents=True)
    (site / "thing.py").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    record = f"thing.py,sha256={digest},{len(content)}\n../../../bin/thing,sha256=0,999\nthing-1.0.dist-info/RECORD,,\n"
    (site / "thing-1.0.dist-info" / "RECORD").write_text(record)
    return site


def test_a_whole_environment_is_not_installed_again(
    quickstart: ModuleType, installs: list[str], tmp_path: Path
) -> None:
    quickstart.ensure_venv(tmp_path / "v", "key", "test", installs.append)
    make_distribution(tmp_path / "v")
    quickstart.ensure_venv(tmp_path / "v", "key", "test", installs.append)

    assert len(installs) == 1


def test_another_key_or_an_interrupted_install_is_finished(
    quickstart: ModuleType, installs: list[str], tmp_path: Path
) -> None:
    def interrupted(_: str) -> None:
        raise quickstart.SetupError("killed")

    with pytest.raises(quickstart.SetupError):
        quickstart.ensure_venv(tmp_path / "v", "key", "test", interrupted)
    quickstart.ensure_venv(tmp_path / "v", "key", "test", installs.append)
    quickstart.ensure_venv(tmp_path / "v", "new key", "test", installs.append)

    assert len(installs) == 2


def test_a_truncated_file_is_found_and_its_package_installed_anew(
    quickstart: ModuleType, installs: list[str], tmp_path: Path
) -> None:
    quickstart.ensure_venv(tmp_path / "v", "key", "test", installs.append)
    site = make_distribution(tmp_path / "v")
    (site / "thing.py").write_bytes(b"x")
    assert quickstart.odd_files(tmp_path / "v") == {"thing.py": ("thing-1.0", 1)}

    quickstart.ensure_venv(tmp_path / "v", "key", "test", installs.append)

    assert len(installs) == 2
    assert not (site / "thing-1.0.dist-info").exists(), "pip would take the package for installed"


def test_a_wheel_with_a_wrong_record_is_installed_once(
    quickstart: ModuleType, installs: list[str], tmp_path: Path
) -> None:
    def install(python: str) -> None:
        installs.append(python)
        site = make_distribution(tmp_path / "v")
        (site / "thing.py").write_bytes(b"not as recorded")

    for _ in range(2):
        quickstart.ensure_venv(tmp_path / "v", "key", "test", install)

    assert len(installs) == 1


def test_too_little_disk_is_told_beforehand(
    quickstart: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(quickstart.shutil, "disk_usage", lambda _: type("U", (), {"free": 5e9})())

    with pytest.raises(quickstart.SetupError, match=r"13 GB are needed .* 5 GB are free"):
        quickstart.check_disk(["stack"])


def test_a_wrong_python_is_told_beforehand(quickstart: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quickstart.sys, "version_info", (3, 9, 1))

    with pytest.raises(quickstart.SetupError, match=r"Python 3.11 or 3.12 is needed"):
        quickstart.check_machine()


def test_a_failed_step_shows_the_end_of_its_log(quickstart: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(quickstart.SetupError, match="the last words"):
        quickstart.run_logged(["sh", "-c", "echo the last words; exit 3"], tmp_path / "x.log", "a step")


def test_a_model_is_built_once_and_again_when_altered(
    quickstart: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SGLGATE_CACHE", str(tmp_path))
    builds = []

    def build(argv: list[str], *_: object) -> None:
        builds.append(argv)
        with quickstart_manifest.built_in_place(tmp_path / "models" / recipe.name, recipe) as folder:
            (folder / "weights").write_bytes(b"w" * 100)

    from fixtures.models import manifest as quickstart_manifest

    recipe = quickstart_manifest.Recipe(name="tiny", version=1)
    monkeypatch.setattr(quickstart, "run_logged", build)
    for _ in range(2):
        quickstart.ensure_model(recipe, ["module"], Path("python"))
    assert len(builds) == 1

    (tmp_path / "models" / "tiny" / "weights").write_bytes(b"v" * 100)
    quickstart.ensure_model(recipe, ["module"], Path("python"))

    assert len(builds) == 2
