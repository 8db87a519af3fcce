"""A machine that is not what the profile demands is refused, with everything that is missing."""

from __future__ import annotations

import dataclasses
import re

import pytest

from sglgate.config import Profile
from sglgate.errors import UnfitError
from sglgate.node import Live, NoGpuError, require_node
from sglgate.node.facts import Card, GpuSample, Nvml
from sglgate.node.nvml import what_is_missing

CARD = Card(
    index=0,
    name="NVIDIA RTX PRO 6000 Blackwell Server Edition",
    uuid="GPU-0",
    bus_id="0000:01:00.0",
    compute_capability="12.0",
    total_mib=97887,
    now=GpuSample(index=0, used_mib=4),
)
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


def card(index: int, **changes: object) -> Card:
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
def test_a_wrong_card_is_named(cards: list[Card], problem: str) -> None:
    missing = what_is_missing(PROFILE.machine, cards)

    assert len(missing) == 1
    assert re.search(problem, missing[0])


def test_too_few_cards_and_too_little_memory_are_told_together(monkeypatch: pytest.MonkeyPatch) -> None:
    few = Nvml(driver="580.95.05", cuda="13.0", cards={"0": CARD})
    monkeypatch.setattr(Live, "nvml", lambda self: few)
    machine = PROFILE.machine.model_copy(update={"min_ram_gib": 1e6})

    with pytest.raises(UnfitError, match=r"2 GPUs needed, 1 found; 1e\+06 GiB of memory needed") as caught:
        require_node(PROFILE.model_copy(update={"machine": machine}), Live(gpus=True))

    assert caught.value.exit_code == 3
    assert not isinstance(caught.value, NoGpuError)


def test_no_driver_at_all_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver(self: Live) -> Nvml:
        raise NoGpuError("no NVIDIA GPU can be seen: NVML says Library Not Found")

    monkeypatch.setattr(Live, "nvml", no_driver)

    with pytest.raises(NoGpuError, match=r"2 GPUs needed: .*Library Not Found"):
        require_node(PROFILE, Live(gpus=True))


def test_a_lane_without_gpus_does_not_ask_for_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Live, "nvml", lambda self: pytest.fail("asked"))

    require_node(Profile.model_validate({"name": "cpu", "reason": "tests"}), Live(gpus=False))
