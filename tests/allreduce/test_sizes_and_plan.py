import math

import pytest

from sglgate.allreduce import paths, plan, sizes, speed
from sglgate.allreduce.sizes import KIB, MIB
from tests.allreduce.ranks import GEOMETRY, SHM_LIMIT_BYTES, shm_claim, shm_host

SHM = paths.path("shm")


def test_bus_bandwidth_of_eight_ranks_is_seven_quarters_of_the_algorithms() -> None:
    assert sizes.algbw_gb_per_s(10**9, 0.5) == 2.0
    assert sizes.busbw_gb_per_s(10**9, 0.5, 8) == pytest.approx(2.0 * 1.75)
    assert sizes.busbw_gb_per_s(10**9, 0.5, 2) == pytest.approx(2.0)


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_odd_shapes_start_at_16_bytes_and_leave_every_vector_width(dtype: str) -> None:
    byte_sizes = [sizes.size_bytes(shape, dtype) for shape in sizes.odd_shapes(dtype)]
    assert byte_sizes[0] == 16
    assert any(size % 16 for size in byte_sizes)
    assert any(math.prod(shape) % 2 for shape in sizes.odd_shapes(dtype))


def test_around_a_limit_lies_one_element_and_one_vector_to_each_side() -> None:
    assert [sizes.size_bytes(shape, "fp32") - MIB for shape in sizes.around(MIB, "fp32")] == [
        -16,
        -4,
        0,
        4,
        16,
    ]


def test_sizes_are_shown_exactly_where_they_can_be() -> None:
    shown = [sizes.show_bytes(size) for size in (18, 12 * KIB, 8 * MIB, 1500)]
    assert shown == ["18 B", "12 KiB", "8 MiB", "1.5 KiB"]


def cases_of(world_size: int) -> list[plan.Case]:
    return plan.exact_cases(SHM, shm_host(world_size), GEOMETRY)


def test_the_plan_reaches_from_16_bytes_to_64_mib_in_every_dtype() -> None:
    for dtype in ("bf16", "fp16", "fp32"):
        tried = [sizes.size_bytes(c["shape"], dtype) for c in cases_of(2) if c["dtype"] == dtype]
        assert (min(tried), max(tried)) == (16, 64 * MIB)


def test_the_plan_has_the_models_shapes_and_both_sides_of_the_limit() -> None:
    tried = {(case["shape"], case["dtype"]) for case in cases_of(2)}
    assert {(shape, "bf16") for shape in GEOMETRY.shapes()} <= tried
    at = SHM_LIMIT_BYTES // 2
    assert {((1, at + step), "bf16") for step in (-8, -1, 0, 1, 8)} <= tried


def test_the_plan_replays_graphs_an_odd_and_an_even_number_of_times() -> None:
    replays = {case["replays"] for case in cases_of(2) if case["mode"] == "graph"}
    assert {count % 2 for count in replays} == {0, 1}
    assert min(replays) > 2


def test_the_plan_delays_every_rank_and_sometimes_none() -> None:
    assert {case["delayed_rank"] for case in cases_of(4)} == {-1, 0, 1, 2, 3}


def test_no_two_cases_share_a_round_even_while_replaying() -> None:
    rounds = [range(case["round"], case["round"] + 1 + case.get("replays", 1)) for case in cases_of(2)]
    used = [number for one in rounds for number in one]
    assert len(used) == len(set(used))


def test_the_order_is_shuffled_and_always_the_same() -> None:
    assert cases_of(2) == cases_of(2)
    tried = [sizes.size_bytes(case["shape"], case["dtype"]) for case in cases_of(2)]
    assert tried != sorted(tried)


def test_fp32_accumulation_is_asked_only_of_paths_that_claim_it() -> None:
    def asked(name: str, world_size: int) -> set[str]:
        host = shm_host(world_size)
        return {c["family"] for c in plan.exact_cases(paths.path(name), host, GEOMETRY, largest_bytes=KIB)}

    assert "fp32_accumulate" in asked("shm", 4)
    assert "fp32_accumulate" not in asked("gloo", 4)
    assert "fp32_accumulate" not in asked("shm", 2)


def test_buckets_stay_within_the_claim_and_have_two_regimes_where_the_cache_allows() -> None:
    found = speed.buckets(shm_claim(2), ["bf16"], [64 * KIB, 256 * KIB, MIB], cache_bytes=MIB)
    assert [bucket.name for bucket in found] == [
        "64 KiB bf16 cached",
        "64 KiB bf16 uncached",
        "256 KiB bf16 cached",
        "256 KiB bf16 uncached",
    ]
