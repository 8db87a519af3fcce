"""Speed, on real ranks: 10 % slower is red, 1 % slower is not, and what is wrong is never timed."""

import pytest

from sglgate.allreduce import paths, speed
from sglgate.allreduce.paths import Claim, Host
from sglgate.allreduce.sizes import MIB
from sglgate.allreduce.world import World
from sglgate.evidence import Verdict
from tests.allreduce.ranks import shm_claim

pytestmark = pytest.mark.stack

GLOO = paths.path("gloo")
GLOO_CLAIM = GLOO.claim(Host(release=(0, 5, 23), world_size=2))
# Over the shm limit: gloo on both sides, so that the only difference is the planted one.
# At 8 MiB a call takes 8 ms, of which a wake-up, by which equal arms differ, is a small part.
BUCKET = speed.Bucket((1, 4 * MIB), "bf16", "uncached")
EFFORT = speed.Effort(calls=1, warmup=2, quads=128)


def compared(world: World, by: float) -> speed.Comparison:
    assert isinstance(GLOO_CLAIM, Claim)
    fault = {"name": "slower", "by": by} if by else None
    return speed.compare(world, GLOO, GLOO_CLAIM, [BUCKET], effort=EFFORT, fault=fault)


def test_ten_percent_slower_fails(world_of_2: World) -> None:
    found = compared(world_of_2, 0.10)
    assert found.finding.verdict is Verdict.FAIL, found.finding.reason
    assert found.rows[0].ratio == pytest.approx(1.10, abs=0.05)


def test_one_percent_slower_does_not_fail(world_of_2: World) -> None:
    found = compared(world_of_2, 0.01)
    assert found.finding.verdict in (Verdict.PASS, Verdict.INCONCLUSIVE), found.finding.reason
    assert found.rows[0].ratio == pytest.approx(1.01, abs=0.04)


def test_a_wrong_path_is_not_timed(world_of_2: World) -> None:
    bucket = speed.Bucket((8, 256), "bf16", "cached")
    fault = {"name": "swaps_blocks"}
    found = speed.compare(world_of_2, paths.path("shm"), shm_claim(2), [bucket], effort=EFFORT, fault=fault)
    assert found.finding.verdict is Verdict.FAIL
    assert found.finding.reason.startswith("not timed: shm wrong elements")
    assert found.rows == ()


def test_a_path_that_fell_back_is_not_timed(world_of_2: World) -> None:
    bucket = speed.Bucket((8, 256), "bf16", "cached")
    fault = {"name": "falls_back"}
    found = speed.compare(world_of_2, paths.path("shm"), shm_claim(2), [bucket], effort=EFFORT, fault=fault)
    assert found.finding.verdict is Verdict.NOT_EXERCISED
    assert found.rows == ()
