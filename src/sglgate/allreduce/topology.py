"""How the GPUs are joined: what SGLang's custom all-reduce asks before it serves."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from sglgate.errors import UnfitError


@dataclass(frozen=True)
class Topology:
    """Compute capability major of the GPUs, and whether every pair of them is joined by NVLink."""

    arch_major: int
    full_nvlink: bool


def read() -> Topology:
    """Ask NVML as ``is_full_nvlink`` does (custom_all_reduce_utils.py, 0.5.9 and 0.5.23).

    Raises:
        UnfitError: no GPU answers.
    """
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise UnfitError(f"no NVIDIA GPU can be seen: NVML says {error}") from None
    try:
        return _read(pynvml)
    finally:
        pynvml.nvmlShutdown()


def _read(nvml: Any) -> Topology:
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    if not handles:
        raise UnfitError("NVML sees a driver and no GPU")
    joined = all(_is_joined(nvml, left, right) for left, right in itertools.combinations(handles, 2))
    # One GPU alone has no pair to be joined; that is not a mesh.
    return Topology(nvml.nvmlDeviceGetCudaComputeCapability(handles[0])[0], joined and len(handles) > 1)


def _is_joined(nvml: Any, left: Any, right: Any) -> bool:
    try:
        status = nvml.nvmlDeviceGetP2PStatus(left, right, nvml.NVML_P2P_CAPS_INDEX_NVLINK)
    except nvml.NVMLError:
        # SGLang takes an error for "no NVLink", so the same answer is the right one here.
        return False
    return bool(status == nvml.NVML_P2P_STATUS_OK)
