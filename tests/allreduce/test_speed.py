"""The arithmetic of timing, without ranks."""

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from sglgate.allreduce import speed
from sglgate.allreduce.messages import TimedAnswer
from sglgate.decision import CPU_VOID_RULES
from sglgate.decision.voids import sift


def answer(*blocks: tuple[float, ...]) -> TimedAnswer:
    whos = ("baseline", "candidate", "candidate", "baseline")
    return TimedAnswer.model_validate(
        {
            "blocks": [{"who": who, "seconds": seconds} for who, seconds in zip(whos, blocks, strict=True)],
        }
    )


def test_stragglers_that_take_turns_are_not_hidden_by_medians() -> None:
    one = answer((1.0, 9.0, 1.0), (1.0,), (1.0,), (1.0,))
    other = answer((9.0, 1.0, 9.0), (1.0,), (1.0,), (1.0,))
    assert speed.group_seconds([one, other], 0) == 9.0


def test_a_pair_is_the_geometric_mean_of_each_arms_two_blocks() -> None:
    block = speed.paired([answer((1.0,), (3.0,), (12.0,), (4.0,))])
    assert block.baseline == pytest.approx(2.0)
    assert block.candidate == pytest.approx(6.0)
    assert block.order == "ABBA"


def test_several_quads_make_one_block() -> None:
    one, two = answer((1.0,), (2.0,), (2.0,), (1.0,)), answer((1.0,), (8.0,), (8.0,), (1.0,))
    both = TimedAnswer(blocks=one.blocks + two.blocks)
    assert speed.paired([both]).candidate == pytest.approx(4.0)
    assert speed.paired([both]).baseline == pytest.approx(1.0)


def test_a_disturbed_quad_does_not_move_the_block() -> None:
    quiet, disturbed = answer((1.0,), (2.0,), (2.0,), (1.0,)), answer((1.0,), (90.0,), (70.0,), (1.0,))
    block = speed.paired([TimedAnswer(blocks=quiet.blocks + disturbed.blocks + quiet.blocks)])
    assert block.candidate / block.baseline == pytest.approx(2.0)


def test_a_linear_drift_cancels_in_a_pair() -> None:
    block = speed.paired([answer((1.0,), (1.1,), (1.21,), (1.331,))])
    assert block.candidate == pytest.approx(block.baseline)


class FakeWorld:
    """Answers with a constant time, and remembers in which order it was asked."""

    def __init__(self, seconds: float, asked: list[tuple[float, tuple[str, ...]]]) -> None:
        self._seconds, self._asked = seconds, asked

    def time(self, *, order: list[str], **arguments: object) -> list[TimedAnswer]:
        self._asked.append((self._seconds, tuple(order)))
        blocks = [{"who": who, "seconds": (self._seconds,)} for who in order]
        return [TimedAnswer.model_validate({"blocks": blocks})] * 2


def test_two_worlds_are_asked_in_turn_and_one_world_at_once() -> None:
    asked: list = []
    fast, slow = FakeWorld(1.0, asked), FakeWorld(2.0, asked)
    bucket = speed.Bucket((1, 8), "bf16", "cached")
    effort = speed.Effort(quads=1)
    apart = speed._Measurement(fast, slow, effort, None, None)  # type: ignore[arg-type]
    block = apart.blocks({"one": bucket})["one"]
    assert asked == [(2.0, ("baseline",)), (1.0, ("candidate", "candidate")), (2.0, ("baseline",))]
    assert block.candidate / block.baseline == pytest.approx(0.5)
    asked.clear()
    speed._Measurement(fast, fast, effort, None, None).blocks({"one": bucket})  # type: ignore[arg-type]
    assert asked == [(1.0, ("baseline", "candidate", "candidate", "baseline"))]


class Watching:
    """Telemetry whose windows all tell the same."""

    rules = CPU_VOID_RULES

    def __init__(self, **facts: float) -> None:
        self._facts = facts

    @contextlib.contextmanager
    def window(self) -> Iterator[Any]:
        yield SimpleNamespace(facts=lambda: self._facts)


@pytest.mark.parametrize(("foreign", "void"), [(0.02, 0), (0.6, 1)])
def test_what_the_machine_did_meanwhile_voids_both_arms_of_a_block(foreign: float, void: int) -> None:
    world, bucket = FakeWorld(1.0, []), speed.Bucket((1, 8), "bf16", "cached")
    watching = Watching(foreign_cpu_share=foreign, throttled_share=0.0)
    measured = speed._Measurement(world, world, speed.Effort(quads=1), None, watching)  # type: ignore[arg-type]

    for block in (measured.blocks({"one": bucket})["one"], measured.aa_block(bucket)):
        _, voided = sift(watching.rules, [block])
        assert len(voided) == void
        assert not void or all(word in voided[0].reason for word in ("baseline", "candidate", "foreign load"))
