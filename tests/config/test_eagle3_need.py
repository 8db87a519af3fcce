"""``[expect.eagle3]``: what contradicts itself is refused with the key and what would be right."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sglgate.config.eagle3 import Eagle3Need


@pytest.mark.parametrize(
    ("speed", "says"),
    [
        ({"min_ratio": {"chat": 1.05}}, "KIND@CONCURRENCY"),
        ({"min_ratio": {"chat@0": 1.05}}, "KIND@CONCURRENCY"),
        ({"min_ratio": {"chat@1": 0.8}}, "slower_because"),
        ({"min_ratio": {"chat@1": 1.05}, "max_loss": {"chat@1": 0.03}}, "one bound"),
        ({"max_loss": {"chat@1": 1.0}}, "accept anything"),
        ({}, "no cell"),
        ({"max_loss": {"chat@1": 0.1}, "looks": [1, 2]}, "at least 2"),
        ({"max_loss": {"chat@1": 0.1}, "looks": [4, 2]}, "ascending"),
    ],
)
def test_a_speed_need_that_contradicts_itself_is_refused(speed, says):
    with pytest.raises(ValidationError, match=says):
        Eagle3Need.model_validate({"speed": speed})


def test_a_bound_below_one_with_its_reason_is_kept():
    need = Eagle3Need.model_validate({"speed": {"min_ratio": {"chat@1": 0.5}, "slower_because": "drafting costs"}})
    assert need.speed is not None
    assert need.speed.bounds == {"chat@1": 0.5}


@pytest.mark.parametrize("rates", [[0.4, 0.6], [1.2], [0.0]])
def test_position_floors_fall_and_are_shares(rates):
    with pytest.raises(ValidationError, match="fall from position"):
        Eagle3Need.model_validate({"acceptance": {"min_position_rates": rates}})


def test_a_template_without_its_prompt_is_refused():
    with pytest.raises(ValidationError, match=r"no \{prompt\}"):
        Eagle3Need.model_validate({"template": "hello"})
