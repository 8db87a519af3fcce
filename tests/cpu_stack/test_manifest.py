"""A model folder is whole or said to be broken."""

import json

import pytest

from fixtures.models.manifest import MANIFEST_NAME, Recipe, built_in_place, verify

RECIPE = Recipe("toy", 2)
BAD_ENTRY = '{"recipe": "toy", "recipe_version": 2, "files": {"a": 1}}'


@pytest.fixture
def model(tmp_path):
    target = tmp_path / "model"
    with built_in_place(target, RECIPE) as folder:
        (folder / "config.json").write_text("{}")
        (folder / "weights.bin").write_bytes(b"\x00\x01" * 1000)
    return target


def test_a_finished_folder_is_right(model):
    assert verify(model, RECIPE) == []


def test_a_missing_folder_is_named(tmp_path):
    assert verify(tmp_path / "absent", RECIPE) == [f"{tmp_path / 'absent'} does not exist"]


def test_a_truncated_file_is_found_even_without_hashing(model):
    (model / "weights.bin").write_bytes(b"\x00" * 7)
    assert verify(model, RECIPE, hashes=False) == ["weights.bin has 7 bytes, wanted 2000"]


def test_a_missing_file_is_found(model):
    (model / "config.json").unlink()
    assert verify(model, RECIPE) == ["config.json is missing"]


def test_an_altered_file_of_the_same_size_is_found_by_its_hash(model):
    (model / "weights.bin").write_bytes(b"\x01\x00" * 1000)
    assert verify(model, RECIPE, hashes=False) == []
    assert "weights.bin was altered" in verify(model, RECIPE)[0]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", BAD_ENTRY])
def test_an_unreadable_manifest_is_red(model, text):
    (model / MANIFEST_NAME).write_text(text)
    assert "manifest.json cannot be read" in verify(model, RECIPE)[0]


def test_a_manifest_without_files_is_red(model):
    body = json.loads((model / MANIFEST_NAME).read_text())
    (model / MANIFEST_NAME).write_text(json.dumps(body | {"files": {}}))
    assert verify(model, RECIPE) == ["manifest.json lists no files"]


def test_an_older_recipe_is_stale(model):
    assert verify(model, Recipe("toy", 3)) == ["built by toy version 2, wanted toy version 3"]


def test_a_build_that_dies_leaves_the_old_folder_and_no_rubbish(model):
    def interrupted_build():
        with built_in_place(model, RECIPE) as folder:
            (folder / "weights.bin").write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_build()
    assert verify(model, RECIPE) == []
    assert [path.name for path in model.parent.iterdir()] == ["model"]


def test_a_rebuild_replaces_the_folder(model):
    with built_in_place(model, RECIPE) as folder:
        (folder / "new.txt").write_text("new")
    assert verify(model, RECIPE) == []
    assert sorted(path.name for path in model.iterdir()) == [MANIFEST_NAME, "new.txt"]
