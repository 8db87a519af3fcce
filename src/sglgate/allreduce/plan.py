"""Which exact cases are run: every trap at the sizes where it costs nothing, the largest sizes once each."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from sglgate.allreduce.paths import Claim, Host, Path, Refusal
from sglgate.allreduce.sizes import (
    DTYPE_BYTES,
    KIB,
    LARGEST_BYTES,
    MIB,
    Geometry,
    Shape,
    around,
    distinct,
    doubling_shapes,
    odd_shapes,
    size_bytes,
)

Case = dict[str, Any]
ALL_FAMILIES_UP_TO_BYTES = 64 * KIB
MORE_FAMILIES_UP_TO_BYTES = 1 * MIB
GRAPH_UP_TO_BYTES = 16 * MIB
ENGAGED_UP_TO_BYTES = 16 * MIB
# A pattern that differs by more than this from any other case's: replays use the rounds in between.
_ROUNDS_PER_CASE = 16
_SEED = 20_240_229


def shapes(dtype: str, claim: Claim | Refusal, geometry: Geometry, largest_bytes: int) -> list[Shape]:
    """All shapes for one dtype: odd, doubling, the model's own, and around the path's limits."""
    limits = [claim.max_bytes] if isinstance(claim, Claim) and claim.max_bytes else []
    edges = [shape for limit in limits if limit < largest_bytes for shape in around(limit, dtype)]
    found = odd_shapes(dtype) + doubling_shapes(dtype, 16, largest_bytes) + geometry.shapes() + edges
    return [shape for shape in distinct(found) if size_bytes(shape, dtype) <= largest_bytes]


def engaged_cases(claim: Claim | Refusal, geometry: Geometry) -> list[tuple[str, Shape]]:
    """``(dtype, shape)`` to profile once: the model's shapes, odd ones, and both sides of the path's limit."""
    return [(dtype, shape) for dtype in DTYPE_BYTES for shape in shapes(dtype, claim, geometry, ENGAGED_UP_TO_BYTES)]


def exact_cases(
    path: Path,
    host: Host,
    geometry: Geometry,
    *,
    dtypes: Iterable[str] = tuple(DTYPE_BYTES),
    largest_bytes: int = LARGEST_BYTES,
) -> list[Case]:
    """The cases of ``stack_side.allreduce.checks``, shuffled: one workspace sees all shapes out of order.

    The seed is fixed, so that all ranks and all runs see the same order, and a failure can be run again.
    """
    claim = path.claim(host)
    cases: list[Case] = []
    for dtype in dtypes:
        for shape in shapes(dtype, claim, geometry, largest_bytes):
            claimed = isinstance(claim, Claim) and claim.covers(shape, dtype)
            cases += [
                {"dtype": dtype, "shape": shape, "family": family, "mode": "eager"}
                for family in _families(path, host, shape, dtype, claimed)
            ]
            if claimed and _has_graphs(shape, dtype, geometry, claim):
                cases += [
                    # An odd and an even number of replays: double buffers go wrong on one of them.
                    {"dtype": dtype, "shape": shape, "family": family, "mode": "graph", "replays": replays}
                    for family, replays in (("small_ints", 5), ("exact_any_order", 4))
                ]
        cases += [
            {"dtype": dtype, "shape": shape, "family": "small_ints", "mode": "together"}
            for shape in geometry.shapes()
            if size_bytes(shape, dtype) <= MORE_FAMILIES_UP_TO_BYTES
        ]
    random.Random(_SEED).shuffle(cases)  # noqa: S311 - an order, not a secret
    for number, case in enumerate(cases):
        case["round"] = number * _ROUNDS_PER_CASE
        # Each rank comes late in turn; in one case of world_size + 1 nobody does.
        case["delayed_rank"] = number % (host.world_size + 1) - 1
    return cases


def bucket_cases(shape: Shape, dtype: str, *, mode: str, first_round: int) -> list[Case]:
    """The few cases that a timed size must pass before and after it is timed."""
    replays = {"replays": 3} if mode == "graph" else {}
    return [
        {
            "dtype": dtype,
            "shape": shape,
            "family": family,
            "mode": mode,
            "round": first_round + number * _ROUNDS_PER_CASE,
            **replays,
        }
        for number, family in enumerate(("small_ints", "exact_any_order"))
    ]


def _families(path: Path, host: Host, shape: Shape, dtype: str, claimed: bool) -> list[str]:
    size = size_bytes(shape, dtype)
    if size > MORE_FAMILIES_UP_TO_BYTES:
        return ["exact_any_order"]
    found = ["small_ints", "exact_any_order", "random"]
    # Only where the path itself serves: the fallback rounds to the dtype at each step, and may.
    if claimed and path.accumulates_fp32(host.world_size) and dtype != "fp32" and host.world_size >= 3:
        found.append("fp32_accumulate")
    if size <= ALL_FAMILIES_UP_TO_BYTES:
        found += ["signed_zeros", "specials"]
    return found


def _has_graphs(shape: Shape, dtype: str, geometry: Geometry, claim: Claim | Refusal) -> bool:
    if size_bytes(shape, dtype) > GRAPH_UP_TO_BYTES:
        return False
    at_limit = isinstance(claim, Claim) and size_bytes(shape, dtype) == claim.max_bytes
    return at_limit or shape in geometry.shapes() or shape in odd_shapes(dtype)[:3]
