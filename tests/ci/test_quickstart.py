"""Quickstart builds a model once, and again when it was altered."""

from __future__ import annotations

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
