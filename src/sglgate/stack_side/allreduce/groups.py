"""SGLang's own groups, built as its server builds them, under the candidate's flags and environment.

The names moved between releases; every lookup here says which one it serves. What is asked and cannot be
set is an error: a worker that quietly ran another configuration would judge the wrong thing.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch.distributed as dist

from .seam import Seam


@dataclass
class World:
    """The groups of one rank and what building them said."""

    rank: int
    world_size: int
    tensor_parallel: Any
    second: Any
    symmetric_memory: bool
    log_lines: list[str] = field(default_factory=list)


class _Collect(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__(level=logging.INFO)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(f"{record.levelname} {record.getMessage()}")


def build(
    seam: Seam,
    *,
    rank: int,
    world_size: int,
    init_method: str,
    timeout_s: int,
    settings: Mapping[str, bool],
) -> World:
    """Initialise torch.distributed and SGLang's model-parallel groups; returns the tensor-parallel one.

    ``settings`` are SGLang's server flags by field name (``disable_custom_all_reduce``, ``enable_mscclpp``,
    ``enable_torch_symm_mem``, ``enable_symm_mem``, ``allreduce_only_fusion``). The mapping to module switches
    is that of ``bootstrap._set_all_reduce_flags`` (0.5.23) and ``ModelRunner.init_torch_distributed``
    (0.5.9).
    """
    from sglang.srt.distributed import parallel_state

    lines: list[str] = []
    handler = _Collect(lines)
    logger = logging.getLogger("sglang")
    logger.addHandler(handler)
    # A candidate's refusal is often an INFO or a WARNING line and nothing else; it must reach the verdict.
    logger.setLevel(logging.INFO)
    _load_plugins()
    _apply_settings(parallel_state, settings)
    parallel_state.init_distributed_environment(
        backend=seam.backend,
        world_size=world_size,
        rank=rank,
        local_rank=rank,
        distributed_init_method=init_method,
        timeout=timeout_s,
    )
    _initialize_model_parallel(parallel_state, world_size)
    tensor_parallel = parallel_state.get_tp_group()
    # Any group name but "tp": PCIe-IPC serves only that one (pcie_ipc_ar._ELIGIBLE_GROUP_NAMES, 0.5.23).
    second = parallel_state.init_model_parallel_group(
        [list(range(world_size))], rank, seam.backend, group_name="sglgate_second"
    )
    return World(
        rank=rank,
        world_size=world_size,
        tensor_parallel=tensor_parallel,
        second=second,
        symmetric_memory=bool(settings.get("enable_symm_mem", False)),
        log_lines=lines,
    )


def _load_plugins() -> None:
    """A candidate may bring its path as a plugin; the server loads them in every process. None before 0.5.12."""
    try:
        from sglang.srt.plugins import load_plugins
    except ImportError:
        return
    load_plugins()


def _apply_settings(parallel_state: Any, settings: Mapping[str, bool]) -> None:
    rest = dict(settings)
    if "disable_custom_all_reduce" in rest:
        parallel_state.set_custom_all_reduce(not rest.pop("disable_custom_all_reduce"))
    if "enable_mscclpp" in rest:
        _switch(parallel_state, "set_mscclpp", "set_mscclpp_all_reduce")(rest.pop("enable_mscclpp"))
    if "enable_torch_symm_mem" in rest:
        parallel_state.set_torch_symm_mem_all_reduce(rest.pop("enable_torch_symm_mem"))
    if rest.pop("allreduce_only_fusion", False):
        _switch(parallel_state, "set_flashinfer_allreduce_only")(True)
    if rest.pop("enable_symm_mem", False):
        # The flag is read through the server's published arguments, which a worker does not have. The groups
        # import this function when they are built, so replacing it before that equals setting the flag.
        from sglang.srt.distributed.device_communicators import pynccl_allocator

        pynccl_allocator.is_symmetric_memory_enabled = lambda: True
    if rest:
        raise ValueError(f"settings unknown to the all-reduce worker: {sorted(rest)}")


def _switch(parallel_state: Any, *names: str) -> Any:
    for name in names:
        if hasattr(parallel_state, name):
            return getattr(parallel_state, name)
    raise ValueError(f"this SGLang has none of {', '.join(names)}: the candidate asks for what it cannot do")


def _initialize_model_parallel(parallel_state: Any, world_size: int) -> None:
    if "tensor_model_parallel_size" in inspect.signature(parallel_state.initialize_model_parallel).parameters:
        parallel_state.initialize_model_parallel(tensor_model_parallel_size=world_size)
        return
    # 0.5.23 reads the widths from its runtime context instead of taking them as arguments.
    from sglang.srt.runtime_context import get_parallel

    get_parallel().override_permanently(
        tp_size=world_size,
        pp_size=1,
        moe_ep_size=1,
        moe_dp_size=1,
        attn_dp_size=1,
        attn_cp_size=1,
        attn_dcp_size=1,
        shared_experts_tp_size=None,
    )
    parallel_state.initialize_model_parallel()


def prepare(world: World, *, hidden: int, max_rows: int) -> None:
    """Build what the server builds before its first reduction.

    PCIe-IPC sizes its workspace once, from the hidden size and the widest decode
    (``base_runner._pre_initialize_pcie_ipc_workspace``, 0.5.23). Left to the first tensor, another
    set of sizes would be eligible here than in the server.
    """
    communicator = getattr(world.tensor_parallel, "pcie_ipc_comm", None)
    if communicator is not None:
        communicator.prepare(hidden=hidden, max_rows=max_rows)


def describe(world: World) -> dict[str, Any]:
    """Which communicators the tensor-parallel group has, with their limits: what dispatch can choose from."""
    alive: dict[str, Any] = {}
    for name, communicator in sorted(vars(world.tensor_parallel).items()):
        is_one = name.endswith(("_comm", "_communicator")) and not isinstance(communicator, bool)
        if not is_one or communicator is None:
            continue
        alive[name] = {
            "class": type(communicator).__name__,
            "disabled": bool(getattr(communicator, "disabled", False)),
            "max_bytes": _as_int(getattr(communicator, "max_size", None)),
            "max_numel": _as_int(getattr(communicator, "max_numel", None)),
        }
    return {
        "backend": dist.get_backend(world.tensor_parallel.device_group),
        "group": world.tensor_parallel.unique_name,
        "communicators": alive,
        "log_lines": list(world.log_lines),
    }


def _as_int(value: Any) -> int | None:
    return int(value) if isinstance(value, int) else None
