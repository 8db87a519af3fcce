"""Who served a call: the leaf of SGLang's dispatch that was entered, and the kernels that then ran.

Two witnesses, because each can be fooled alone: a leaf that is entered may launch nothing, and a kernel's
name may be shared by two paths.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from .seam import Seam

# (attribute of GroupCoordinator, method) of every leaf that ``all_reduce`` can end in, 0.5.5 to 0.5.23.
_LEAVES = (
    ("ca_comm", "custom_all_reduce"),
    ("pcie_ipc_comm", "pcie_ipc_all_reduce"),
    ("qr_comm", "quick_all_reduce"),
    ("pymscclpp_comm", "all_reduce"),
    ("torch_symm_mem_comm", "all_reduce"),
    ("pynccl_comm", "all_reduce"),
    ("pynccl_comm", "outplace_all_reduce"),
)
_PATH_OF_CLASS = {"CustomAllreduce": "custom_v1", "CustomAllReduceV2": "custom_v2"}
_PATH_OF_ATTRIBUTE = {
    "pcie_ipc_comm": "pcie_ipc",
    "qr_comm": "quick",
    "pymscclpp_comm": "mscclpp",
    "torch_symm_mem_comm": "torch_symm_mem",
}


@contextlib.contextmanager
def leaves(coordinator: Any, *, symmetric_memory: bool) -> Iterator[list[str]]:
    """Collect, in order, the path of every leaf entered inside the block."""
    entered: list[str] = []
    with contextlib.ExitStack() as stack:
        for attribute, method in _LEAVES:
            communicator = getattr(coordinator, attribute, None)
            if communicator is not None and hasattr(communicator, method):
                path = _path_of(attribute, communicator, symmetric_memory)
                stack.enter_context(_watched(communicator, method, path, entered))
        if hasattr(coordinator, "_flashinfer_allreduce"):
            stack.enter_context(_watched(coordinator, "_flashinfer_allreduce", "flashinfer_fusion", entered))
        # The CPU lane's own path, if its plugin is in this process.
        if (shm := sys.modules.get("sglgate_cpu_stack.shm")) is not None:
            stack.enter_context(_watched(shm.ShmAllReduce, "_one_shot", "shm", entered))
        backend = dist.get_backend(coordinator.device_group)
        stack.enter_context(_watched(dist, "all_reduce", str(backend), entered))
        yield entered


def _path_of(attribute: str, communicator: Any, symmetric_memory: bool) -> str:
    if attribute == "ca_comm":
        name = type(communicator).__name__
        return _PATH_OF_CLASS.get(name, f"custom:{name}")
    if attribute == "pynccl_comm":
        return "nccl_symm_mem" if symmetric_memory else "nccl"
    return _PATH_OF_ATTRIBUTE[attribute]


@contextlib.contextmanager
def _watched(owner: Any, method: str, path: str, entered: list[str]) -> Iterator[None]:
    original: Callable[..., Any] = getattr(owner, method)

    @functools.wraps(original)
    def watched(*args: Any, **kwargs: Any) -> Any:
        entered.append(path)
        return original(*args, **kwargs)

    had_own = method in vars(owner)
    setattr(owner, method, watched)
    try:
        yield
    finally:
        if had_own:
            setattr(owner, method, original)
        else:
            delattr(owner, method)


def kernels(seam: Seam, call: Callable[[], Any]) -> list[str]:
    """Names of what ran on the device during ``call``; on a CPU, of the profiled operations."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    on_cuda = seam.device.type == "cuda"
    if on_cuda:
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profile:
        call()
        seam.synchronize()
    wanted = torch.autograd.DeviceType.CUDA if on_cuda else torch.autograd.DeviceType.CPU
    return sorted({event.name for event in profile.events() if event.device_type == wanted})
