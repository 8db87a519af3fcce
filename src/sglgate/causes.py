"""The words for why a launch failed: what ``sglgate diagnose`` may answer and a candidate may declare."""

from __future__ import annotations

from typing import Final

#: Apart from the table of their wordings, which only a log needs and which takes long to import.
KNOWN_CAUSES: Final = tuple(
    """
    kv_budget_exhausted weights_oom graph_capture_oom runtime_oom nccl_error p2p_iommu_hang peer_access_unsupported
    custom_allreduce_failure kernel_arch_unsupported kernel_resource_limit jit_compile_failure cuda_toolchain_mismatch
    illegal_memory_access port_in_use gpu_memory_held model_not_found model_unsupported bad_flag parallel_shape_assert
    quant_mismatch spec_draft_mismatch watchdog_hang shm_too_small host_oom_killed device_fault fabric_or_symm_mem
    dependency_mismatch warmup_or_proxy too_few_gpus engine_bug none unknown
    """.split()  # noqa: SIM905 - a list of words reads better than a column of strings
)
