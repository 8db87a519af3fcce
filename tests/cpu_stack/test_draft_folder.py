"""The committed draft is whole, small, and says where it comes from."""

import json

from fixtures.models.eagle3 import DRAFT_FOLDER, RECIPE
from fixtures.models.manifest import verify


def test_the_committed_draft_is_what_its_manifest_lists():
    assert verify(DRAFT_FOLDER, RECIPE) == []


def test_the_weights_stay_small_enough_for_a_repository():
    assert (DRAFT_FOLDER / "model.safetensors").stat().st_size < 16_000_000


def test_the_provenance_names_seeds_data_and_what_was_reached():
    provenance = json.loads((DRAFT_FOLDER / "provenance.json").read_text())
    assert provenance["recipe_version"] == RECIPE.version
    assert len(provenance["data_sha256"]) == 64
    assert {"data_seed", "training_seed", "data_tokens", "stages"} <= provenance.keys()
    by_position = provenance["dev_acceptance_by_position"]
    assert by_position == sorted(by_position, reverse=True)
    assert provenance["dev_mean_acceptance_length"] == 1 + sum(by_position)
