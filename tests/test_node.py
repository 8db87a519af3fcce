"""A machine that is not what the profile demands is refused, with everything that is missing."""

from __future__ import annotations

import dataclasses
import re

import pytest

from sglgate import node
from sglgate.config import Profile
from sglgate.errors import UnfitError
from sglgate.gpus import Gpu, NoGpuError, what_is_missing

CARD = Gpu(0, "NVIDIA RTX PRO 6000 Blackwell Server Edition", "GPU-0", "12.0", 97887, 4, {})
PROFILE = Profile.model_validate(
    {
        "name": "blackwell",
        "reason": "tests",
        "machine": {
            "gpus": 2,
            "compute_capability": "12.0",
            "gpu_memory_mib": 97887,
            "gpu_name": "RTX PRO 6000",
        },
    }
)


def card(index: int, **changes: object) -> Gpu:
    return dataclasses.replace(CARD, index=index, **changes)


def test_the_right_cards_are_accepted_and_more_of_them_too() -> None:
    assert what_is_missing(PROFILE.machine, [card(0), card(1)]) == []
    assert what_is_missing(PROFILE.machine, [card(0), card(1), card(2, name="GeForce")]) == []


@pytest.mark.parametrize(
    ("cards", "problem"),
    [
        ([], "2 GPUs needed, 0 found"),
        ([card(0)], "2 GPUs needed, 1 found"),
        ([card(0), card(1, compute_capability="9.0")], "GPU 1 .*compute capability 9.0, not 12.0"),
        ([card(0), card(1, name="NVIDIA H200")], "GPU 1 .*not a RTX PRO 6000"),
        ([card(0, total_mib=48000), card(1)], "GPU 0 .*48000 MiB, not 97887"),
    ],
)
def test_a_wrong_card_is_named(cards: list[Gpu], problem: str) -> None:
    missing = what_is_missing(PROFILE.machine, cards)

    assert len(missing) == 1
    assert re.search(problem, missing[0])


def test_no_driver_and_too_little_memory_are_told_together(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> list[Gpu]:
        raise NoGpuError("no NVIDIA GPU can be seen: NVML says Library Not Found")

    monkeypatch.setattr(node, "read_gpus", no_driver)
    machine = PROFILE.machine.model_copy(update={"min_ram_gib": 1e6})

    with pytest.raises(UnfitError, match=r"2 GPUs needed: .*Library Not Found; 1e\+06 GiB of memory needed") as caught:
        node.require_node(PROFILE.model_copy(update={"machine": machine}))

    assert caught.value.exit_code == 3


def test_a_lane_without_gpus_does_not_ask_for_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "read_gpus", lambda: pytest.fail("asked"))

    node.require_node(Profile.model_validate({"name": "cpu", "reason": "tests"}))
