"""A one-shot all-reduce over shared memory for CPU ranks of one host: the CPU lane's own fast path.

It enters SGLang where SGLang's own CPU path does: ``GroupCoordinator.all_reduce`` asks ``is_shm_available``
and then calls ``torch.ops.sgl_kernel.shm_allreduce`` (parallel_state.py, 0.5.9 and 0.5.23; the stock kernel
needs AMX or an ARM host). So the dispatch under test is SGLang's.

One shot: every rank writes its part into its slot, raises its flag to the call's number, waits until all
flags have reached it, and sums all slots in rank order in fp32. Rank order makes the answer the same to the
last bit on every rank; fp32 makes it one rounding instead of one a step. Two sets of slots alternate: a
rank can write set ``n % 2`` again only at call ``n + 2``, and to get there it has seen every flag at ``n +
1``, which a rank raises only after it has read all of call ``n``.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

RECORD_NAME = "sglgate::shm_all_reduce"
DTYPES = (torch.bfloat16, torch.float16, torch.float32)
ALIGNMENT_BYTES = 16
_FLAG_STRIDE_BYTES = 64  # one cache line a flag: ranks must not invalidate each other's line while they spin
_SPINS_BEFORE_SLEEP = 200
_PR_SET_TIMERSLACK = 29


class ShmAllReduce:
    """The shared region of one group. Collective: every rank of ``coordinator`` constructs it together.

    Args:
        coordinator: SGLang's ``GroupCoordinator``; its ``cpu_group`` names the region, its ``device_group``
            serves what this path refuses.
        limit_bytes: the largest tensor served; two slots of this size a rank are mapped.
        wait_limit_s: a peer that does not come within this time is an error.

    Raises:
        RuntimeError: on a machine whose memory order this code does not handle.
    """

    def __init__(self, coordinator: Any, *, limit_bytes: int, wait_limit_s: float) -> None:
        if platform.machine() not in ("x86_64", "AMD64"):
            # Data and flag are plain stores: right under total store order, a race on a weaker machine.
            raise RuntimeError(f"shm all-reduce needs x86-64's store order, this is {platform.machine()}")
        self.rank, self.world_size = coordinator.rank_in_group, coordinator.world_size
        self.limit_bytes, self.wait_limit_s = limit_bytes, wait_limit_s
        self._fallback_group = coordinator.device_group
        flags_bytes = self.world_size * _FLAG_STRIDE_BYTES
        self._slots_at = -(-flags_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        region = self._map(coordinator, self._slots_at + 2 * self.world_size * limit_bytes)
        self._region = region
        flags = memoryview(region)[:flags_bytes].cast("q")
        self._flags = flags[:: _FLAG_STRIDE_BYTES // 8]
        self._call = 0
        # The kernel rounds every sleep up by 50 us unless told otherwise: more than a whole small all-reduce.
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)

    def _map(self, coordinator: Any, size_bytes: int) -> mmap.mmap:
        name: list[str | None] = [None]
        if self.rank == 0:
            folder = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - it is the shared memory
            descriptor, path = tempfile.mkstemp(prefix="sglgate-shm-", dir=folder)
            os.ftruncate(descriptor, size_bytes)
            os.close(descriptor)
            name = [path]
        try:
            dist.broadcast_object_list(name, src=coordinator.ranks[0], group=coordinator.cpu_group)
            assert name[0] is not None
            with Path(name[0]).open("r+b") as file:
                region = mmap.mmap(file.fileno(), size_bytes)
            dist.barrier(group=coordinator.cpu_group)
        finally:
            # All have it mapped; without a name nothing is left behind, however the ranks end.
            if self.rank == 0 and name[0] is not None:
                with contextlib.suppress(FileNotFoundError):
                    Path(name[0]).unlink()
        return region

    def eligible(self, tensor: torch.Tensor) -> bool:
        """Whether this path serves the tensor; the same on all ranks for the same shape and dtype."""
        size_bytes = tensor.numel() * tensor.element_size()
        return (
            tensor.dtype in DTYPES
            and tensor.is_contiguous()
            and 0 < size_bytes <= self.limit_bytes
            and size_bytes % ALIGNMENT_BYTES == 0
        )

    def all_reduce(self, tensor: torch.Tensor) -> None:
        """Sum ``tensor`` over the ranks, in place; what is not eligible goes to the group's own backend."""
        if not self.eligible(tensor):
            dist.all_reduce(tensor, group=self._fallback_group)
            return
        with torch.profiler.record_function(RECORD_NAME):
            self._one_shot(tensor)

    def _one_shot(self, tensor: torch.Tensor) -> None:
        self._call += 1
        slots = [self._slot(rank, tensor) for rank in range(self.world_size)]
        slots[self.rank].copy_(tensor)
        self._flags[self.rank] = self._call
        self._wait_for_all(self._call)
        total = slots[0].float() if tensor.dtype != torch.float32 else slots[0].clone()
        for slot in slots[1:]:
            total += slot
        tensor.copy_(total)

    def _slot(self, rank: int, tensor: torch.Tensor) -> torch.Tensor:
        offset = self._slots_at + ((self._call % 2) * self.world_size + rank) * self.limit_bytes
        flat = torch.frombuffer(self._region, dtype=tensor.dtype, count=tensor.numel(), offset=offset)
        return flat.view(tensor.shape)

    def _wait_for_all(self, call: int) -> None:
        deadline = time.monotonic() + self.wait_limit_s
        for rank in range(self.world_size):
            spins = 0
            while self._flags[rank] < call:
                spins += 1
                if spins < _SPINS_BEFORE_SLEEP:
                    continue
                # More ranks than cores is the normal case here: leave the core to the one waited for. Not
                # sched_yield: on a busy machine that waits out everybody else's time slice.
                time.sleep(5e-6)
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"rank {rank} did not reach all-reduce {call} in {self.wait_limit_s} s"
                    )


_installed: dict[str, Any] = {}


def install(coordinator: Any, *, limit_bytes: int, wait_limit_s: float) -> ShmAllReduce:
    """Make SGLang's CPU dispatch choose this path for ``coordinator``. Collective; once a process.

    SGLang decides by ``world_size == local_size``; only this coordinator is given its ``local_size``, so
    other groups of the process keep their backend: one region must not serve two groups.
    """
    if _installed:
        raise RuntimeError("the shm all-reduce is already installed in this process")
    from sglang.srt.distributed import parallel_state

    path = ShmAllReduce(coordinator, limit_bytes=limit_bytes, wait_limit_s=wait_limit_s)

    def is_shm_available(dtype: torch.dtype, world_size: int, local_size: int) -> bool:
        return dtype in DTYPES and world_size == local_size

    def shm_allreduce(data: torch.Tensor, reduce_op: int) -> None:
        if reduce_op != parallel_state.REDUCE_OP_SUM:
            raise ValueError(f"the shm all-reduce only sums; asked for operation {reduce_op}")
        path.all_reduce(data)

    library = torch.library.Library("sgl_kernel", "FRAGMENT")
    if not hasattr(torch.ops.sgl_kernel, "shm_allreduce"):
        # The schema of the stock kernel: SGLang calls it by this name.
        library.define("shm_allreduce(Tensor(a!) data, int reduce_op) -> ()")
    library.impl("shm_allreduce", shm_allreduce, "CPU")
    parallel_state.is_shm_available = is_shm_available
    coordinator.local_size = coordinator.world_size
    _installed.update(library=library, path=path)
    return path
