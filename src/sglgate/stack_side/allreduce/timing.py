"""Candidate and baseline measured in one process group, block by block, for a fixed number of iterations.

Fixed, because a count that each rank tuned for itself would leave one waiting in a collective for ever. Every
rank reports every iteration; the suite takes the maximum over ranks of each iteration and only then a median,
so that stragglers that take turns do not hide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from . import faults, inputs
from .groups import World
from .seam import Seam, symmetric_allocation

_SCALE = 2.0**-6  # in-place paths grow their data call by call; bf16 and fp32 stay finite over one iteration


def run(
    world: World,
    seam: Seam,
    *,
    dtype: str,
    shape: list[int],
    order: list[str],
    iterations: int,
    calls: int,
    warmup: int,
    buffers: int,
    evict_bytes: int,
    mode: str,
    fault: dict[str, Any] | None,
) -> dict[str, Any]:
    """Time ``order``, a list of ``candidate`` and ``baseline``, one block of ``iterations`` each.

    One iteration is ``calls`` all-reduces over ``buffers`` inputs in rotation. With ``evict_bytes`` that many bytes
    are written before each iteration, so that no input is in the last-level cache when its turn comes.

    Returns ``blocks``: per block ``who`` and ``seconds`` (per call, one an iteration).
    """
    inputs_in_rotation = _Buffers(world, seam, dtype, tuple(shape), buffers, evict_bytes)
    coordinator = world.tensor_parallel
    contenders: dict[str, Callable[[torch.Tensor], Any]] = {
        # Looked up at each call: a planted fault replaces the method.
        "candidate": lambda tensor: coordinator.all_reduce(tensor),
        "baseline": lambda tensor: dist.all_reduce(tensor, group=coordinator.device_group),
    }
    blocks: list[dict[str, Any]] = []
    with faults.planted(coordinator, fault):
        rotation = inputs_in_rotation.rotation(calls)
        work = {who: _work(seam, contenders[who], rotation, mode) for who in dict.fromkeys(order)}
        for who in work:
            _iterations(world, seam, inputs_in_rotation, work[who], warmup)
        for who in order:
            seconds = _iterations(world, seam, inputs_in_rotation, work[who], iterations)
            blocks.append({"who": who, "seconds": [value / calls for value in seconds]})
    return {"blocks": blocks}


def _work(
    seam: Seam, all_reduce: Callable[[torch.Tensor], Any], rotation: list[torch.Tensor], mode: str
) -> Callable[[], Any]:
    def calls() -> None:
        for tensor in rotation:
            all_reduce(tensor)

    return seam.capture(calls).replay if mode == "graph" else calls


def _iterations(world: World, seam: Seam, buffers: _Buffers, work: Callable[[], Any], count: int) -> list[float]:
    seconds = []
    for _ in range(count):
        buffers.refill()
        seam.synchronize()
        seam.barrier(world.tensor_parallel)
        seconds.append(seam.elapsed_s(work))
    return seconds


class _Buffers:
    """Inputs in rotation; both contenders use the same ones."""

    def __init__(
        self, world: World, seam: Seam, dtype: str, shape: tuple[int, ...], count: int, evict_bytes: int
    ) -> None:
        torch_dtype = inputs.DTYPES[dtype]
        elements = 1
        for size in shape:
            elements *= size
        data = inputs.make("small_ints", torch_dtype, world.world_size, 0)
        self._source = (data.of_rank(world.rank, elements, seam.device) * _SCALE).view(shape)
        self._evict = torch.zeros(evict_bytes, dtype=torch.uint8, device=seam.device)
        with symmetric_allocation(world.tensor_parallel, world.symmetric_memory):
            self._tensors = [torch.empty_like(self._source) for _ in range(count)]

    def refill(self) -> None:
        for tensor in self._tensors:
            tensor.copy_(self._source)
        # After the inputs: what was written last is what the cache holds.
        self._evict.add_(1)

    def rotation(self, calls: int) -> list[torch.Tensor]:
        return [self._tensors[call % len(self._tensors)] for call in range(calls)]
