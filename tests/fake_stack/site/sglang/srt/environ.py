"""The environment names that this pretended release reads."""

NAMES = (
    "SGLANG_USE_CPU_ENGINE",
    "SGLANG_NCCL_SO_PATH",
    "SGLANG_CPU_OMP_THREADS_BIND",
    "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE",
)
