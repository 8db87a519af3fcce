"""Faults planted by name: each is one way a path can fool a reader, and must turn one check red.

A fault wraps ``GroupCoordinator.all_reduce`` of the group under test, above everything of SGLang's, so the
same fault works on every path and device.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

AllReduce = Callable[[torch.Tensor], torch.Tensor]
_BLOCK_ELEMENTS = 64
# Long enough for any deadline of the suite; a hang must be ended from outside.
_HANG_S = 3600.0
_PACE_CALLS = 101


@contextlib.contextmanager
def planted(coordinator: Any, fault: dict[str, Any] | None) -> Iterator[None]:
    """Plant ``{"name": ..., **parameters}`` in ``coordinator.all_reduce`` for the length of the block."""
    if fault is None or fault["name"] == "wrong_on_replay":  # that one lives in the recorded call
        yield
        return
    parameters = {key: value for key, value in fault.items() if key != "name"}
    honest: AllReduce = coordinator.all_reduce
    coordinator.all_reduce = _FAULTS[fault["name"]](coordinator, honest, **parameters)
    try:
        yield
    finally:
        # The honest one is the class's own method; the instance must not keep a copy.
        del coordinator.all_reduce


def corrupt_replay(fault: dict[str, Any] | None, replay_number: int, output: torch.Tensor) -> None:
    """``wrong_on_replay``: right when captured, wrong from replay ``at`` on, as with a stale pointer."""
    if fault is not None and fault["name"] == "wrong_on_replay" and replay_number >= fault["at"]:
        output.view(-1)[-1] += 1


def _drops_rank(coordinator: Any, honest: AllReduce, *, dropped: int, size_bytes: int) -> AllReduce:
    """One rank's part is lost, at one size only."""

    def faulty(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.numel() * tensor.element_size() == size_bytes and coordinator.rank_in_group == dropped:
            tensor.zero_()
        return honest(tensor)

    return faulty


def _previous_answer(coordinator: Any, honest: AllReduce) -> AllReduce:
    """The answer of the previous call with this shape: a flag that was not waited for."""
    last: dict[Any, torch.Tensor] = {}

    def faulty(tensor: torch.Tensor) -> torch.Tensor:
        output = honest(tensor)
        key = (tensor.dtype, tensor.shape)
        stale, last[key] = last.get(key), output.clone()
        if stale is not None:
            output.copy_(stale)
        return output

    return faulty


def _writes_nothing(coordinator: Any, honest: AllReduce) -> AllReduce:
    """Allocates its output and launches nothing: sgl-kernel's custom all-reduce past its own guard."""

    def faulty(tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(tensor)

    return faulty


def _adds_in_bf16(coordinator: Any, honest: AllReduce) -> AllReduce:
    """A bf16 accumulator, whatever the dtype."""

    def faulty(tensor: torch.Tensor) -> torch.Tensor:
        parts = [torch.empty_like(tensor) for _ in range(coordinator.world_size)]
        dist.all_gather(parts, tensor, group=coordinator.device_group)
        total = torch.zeros_like(tensor, dtype=torch.bfloat16)
        for part in parts:
            total += part.bfloat16()
        tensor.copy_(total)
        return tensor

    return faulty


def _swaps_blocks(coordinator: Any, honest: AllReduce) -> AllReduce:
    """Two blocks of the answer in each other's place: a wrong chunk offset."""

    def faulty(tensor: torch.Tensor) -> torch.Tensor:
        output = honest(tensor)
        flat = output.view(-1)
        if flat.numel() >= 4 * _BLOCK_ELEMENTS:
            first, third = slice(0, _BLOCK_ELEMENTS), slice(2 * _BLOCK_ELEMENTS, 3 * _BLOCK_ELEMENTS)
            flat[first], flat[third] = flat[third].clone(), flat[first].clone()
        return output

    return faulty


def _mutates_input(coordinator: Any, honest: AllReduce) -> AllReduce:
    """Out of place with the right answer, but the input is scribbled over."""

    def faulty(tensor: torch.Tensor) -> torch.Tensor:
        output = honest(tensor.clone())
        tensor.view(-1)[0] += 1
        return output

    return faulty


def _last_bit_on_rank(coordinator: Any, honest: AllReduce, *, rank: int) -> AllReduce:
    """One rank's answer differs from the others' in the last bit of one element."""

    def faulty(tensor: torch.Tensor) -> torch.Tensor:
        output = honest(tensor)
        if coordinator.rank_in_group == rank:
            bits = output.view(-1).view(torch.int32 if output.dtype.itemsize == 4 else torch.int16)
            bits[bits.numel() // 2] ^= 1
        return output

    return faulty


def _writes_past_end(coordinator: Any, honest: AllReduce) -> AllReduce:
    """A vectorised tail that writes one element too many."""

    def faulty(tensor: torch.Tensor) -> torch.Tensor:
        output = honest(tensor)
        tail = torch.as_strided(tensor, (1,), (1,), tensor.storage_offset() + tensor.numel())
        tail.zero_()
        return output

    return faulty


def _hangs_on_rank(coordinator: Any, honest: AllReduce, *, rank: int) -> AllReduce:
    """One rank never comes: NCCL P2P under an IOMMU looks like this from the host."""

    def faulty(tensor: torch.Tensor) -> torch.Tensor:
        if coordinator.rank_in_group == rank:
            time.sleep(_HANG_S)
        return honest(tensor)

    return faulty


def _falls_back(coordinator: Any, honest: AllReduce) -> AllReduce:
    """The right answer from the wrong path, without a word."""

    def faulty(tensor: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(tensor, group=coordinator.device_group)
        return tensor

    return faulty


def _slower(coordinator: Any, honest: AllReduce, *, by: float) -> AllReduce:
    """The right answer, later by the share ``by`` of what a call takes without it.

    That is measured first, and is the same on every rank: a share of each call's own time would grow with whatever
    disturbs the call, once a rank.
    """
    delays: dict[int, float] = {}

    def delay_s(tensor: torch.Tensor) -> float:
        seconds = []
        for _ in range(_PACE_CALLS):
            dist.barrier(group=coordinator.cpu_group)
            started = time.perf_counter()
            honest(tensor.clone())
            seconds.append(time.perf_counter() - started)
        slowest = torch.tensor(seconds, dtype=torch.float64)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX, group=coordinator.cpu_group)
        return by * float(slowest.median())

    def faulty(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.numel() not in delays:
            delays[tensor.numel()] = delay_s(tensor)
        output = honest(tensor)
        until = time.perf_counter() + delays[tensor.numel()]
        while time.perf_counter() < until:
            pass
        return output

    return faulty


_FAULTS: dict[str, Callable[..., AllReduce]] = {
    "drops_rank": _drops_rank,
    "previous_answer": _previous_answer,
    "writes_nothing": _writes_nothing,
    "adds_in_bf16": _adds_in_bf16,
    "swaps_blocks": _swaps_blocks,
    "mutates_input": _mutates_input,
    "last_bit_on_rank": _last_bit_on_rank,
    "writes_past_end": _writes_past_end,
    "hangs_on_rank": _hangs_on_rank,
    "falls_back": _falls_back,
    "slower": _slower,
}
