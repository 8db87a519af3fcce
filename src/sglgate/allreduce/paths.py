"""Every all-reduce path: how a candidate asks for it, what it claims to serve, how it is recognised.

Read from SGLang's wheels 0.5.5 to 0.5.23, file names in the comments; ``tests/allreduce/test_sources.py``
holds flags, environment names and rules against whatever wheels it is given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sglgate.allreduce.sizes import MIB, Shape, size_bytes
from sglgate.errors import MisuseError, nearest

Release = tuple[int, ...]
ALL_DTYPES = frozenset({"bf16", "fp16", "fp32"})


@dataclass(frozen=True)
class Host:
    """What eligibility depends on: release, ranks, compute capability (0 on a CPU), NVLink mesh, limits.

    ``path_limit_bytes`` is the limit of a path whose limit is configured and not fixed: PCIe-IPC's
    workspace and the CPU lane's shared memory.
    """

    release: Release
    world_size: int
    arch_major: int = 0
    full_nvlink: bool = False
    path_limit_bytes: int = 0


@dataclass(frozen=True)
class Claim:
    """What a path says it serves on a host. Limits in bytes of one rank's tensor, ``max_bytes`` included."""

    dtypes: frozenset[str] = ALL_DTYPES
    min_bytes: int = 1
    max_bytes: int | None = None
    multiple_of_bytes: int = 1
    min_dims: int = 1

    def covers(self, shape: Shape, dtype: str) -> bool:
        """Whether a contiguous tensor of this shape and dtype is within the claim."""
        size = size_bytes(shape, dtype)
        return (
            dtype in self.dtypes
            and self.min_bytes <= size
            and (self.max_bytes is None or size <= self.max_bytes)
            and size % self.multiple_of_bytes == 0
            and len(shape) >= self.min_dims
        )


@dataclass(frozen=True)
class Refusal:
    """A path that serves nothing on a host, and why."""

    reason: str


@dataclass(frozen=True)
class Path:
    """One way to sum a tensor over the ranks.

    Attributes:
        flags: server flags by release that ask for it (a function, because they were renamed).
        env: environment that asks for it.
        settings: the same as switches of the worker, by SGLang's field name.
        kernels: patterns of the kernels (CPU: profiled operations) that prove that it ran.
        refusals: patterns of the log lines with which SGLang says that it will not serve.
        claim: what it serves on a host, or why nothing.
        accumulates_fp32: whether it rounds once, from fp32, for this number of ranks.
        in_worker: whether ``GroupCoordinator.all_reduce`` can reach it outside a server.
        since: the first release that has it.
    """

    name: str
    kernels: tuple[str, ...]
    claim: Callable[[Host], Claim | Refusal]
    flags: Callable[[Release], tuple[str, ...]] = lambda release: ()
    env: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, bool] = field(default_factory=dict)
    refusals: tuple[str, ...] = ()
    accumulates_fp32: Callable[[int], bool] = lambda world_size: False
    in_worker: bool = True
    since: Release = (0, 5, 5)

    def ran(self, kernels: Sequence[str]) -> bool:
        """Whether any of these kernel names is this path's."""
        return any(re.search(pattern, name) for pattern in self.kernels for name in kernels)

    def refused(self, log_lines: Sequence[str]) -> list[str]:
        """The log lines that explain why SGLang did not use this path."""
        return [line for line in log_lines if any(re.search(pattern, line) for pattern in self.refusals)]


def parse_release(text: str) -> Release:
    """``0.5.23`` or ``0.5.9.post1`` -> its leading numbers."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    if found is None:
        raise MisuseError("not an SGLang release", value=text, expected="a version such as 0.5.23")
    return tuple(int(part) for part in found[0].split("."))


def _no_custom(release: Release) -> tuple[str, ...]:
    return ("--disable-custom-all-reduce",)


def _everything(host: Host) -> Claim:
    return Claim()


def _custom_v1(host: Host) -> Claim | Refusal:
    # custom_all_reduce.py: should_custom_ar, can_use_custom_all_reduce_with_nvlink
    if host.world_size not in (2, 4, 6, 8):
        return Refusal(f"custom all-reduce serves 2, 4, 6 or 8 ranks, not {host.world_size}")
    if host.world_size > 2 and not host.full_nvlink:
        return Refusal("custom all-reduce hands more than two PCIe-only GPUs to NCCL")
    # "<" until 0.5.6, "<=" from 0.5.9 on.
    limit = 8 * MIB if host.release >= (0, 5, 9) else 8 * MIB - 16
    return Claim(multiple_of_bytes=16, max_bytes=limit)


def _custom_v2(host: Host) -> Claim | Refusal:
    # custom_all_reduce_v2.py: can_use_custom_all_reduce_v2; configs/custom_all_reduce_v2.py: the default
    # table
    if not 2 <= host.world_size <= 16:
        return Refusal(f"custom all-reduce v2 serves 2 to 16 ranks, not {host.world_size}")
    if not host.full_nvlink:
        return Refusal("custom all-reduce v2 needs a full NVLink mesh, for two GPUs as well")
    # Tuned tables (SM90, SM100, SM107) may stop earlier or, with multicast, later; the worker asks SGLang.
    return Claim(multiple_of_bytes=16, max_bytes=host.path_limit_bytes or 16 * MIB)


def _pcie_ipc(host: Host) -> Claim | Refusal:
    # pcie_ipc_ar.py: _SUPPORTED_WORLD_SIZES, should_pcie_ipc_ar
    if host.world_size not in (2, 4, 8):
        return Refusal(f"PCIe-IPC serves 2, 4 or 8 ranks, not {host.world_size}")
    if not host.path_limit_bytes:
        return Refusal("PCIe-IPC's workspace size is unknown; it is widest decode rows x hidden x 2 bytes")
    return Claim(dtypes=frozenset({"bf16"}), min_dims=2, max_bytes=host.path_limit_bytes)


def _torch_symm_mem(host: Host) -> Claim | Refusal:
    # torch_symm_mem.py: should_torch_symm_mem_allreduce; all_reduce_utils.py: the sizes ("<")
    if host.arch_major not in (9, 10):
        return Refusal(f"torch symmetric memory serves SM9x and SM10x, not SM{host.arch_major}x")
    if host.world_size not in (2, 4, 6, 8):
        return Refusal(f"torch symmetric memory serves 2, 4, 6 or 8 ranks, not {host.world_size}")
    limit = (64 if host.world_size <= 4 else 128) * MIB
    return Claim(dtypes=frozenset({"bf16"}), multiple_of_bytes=4, max_bytes=limit - 4)


def _mscclpp(host: Host) -> Claim | Refusal:
    # pymscclpp.py: _SUPPORTED_WORLD_SIZES; until 0.5.20 a size limit, in 0.5.23 tuned configurations
    new = host.release >= (0, 5, 23)
    sizes = (4, 8, 16, 32, 64) if new else (8, 16, 32) if host.release >= (0, 5, 15) else (8, 16)
    if host.world_size not in sizes:
        return Refusal(f"MSCCL++ serves {sizes} ranks in this release, not {host.world_size}")
    if host.path_limit_bytes:
        return Claim(max_bytes=host.path_limit_bytes)
    if new:
        return Refusal("MSCCL++ serves the sizes that it tuned itself; their limit must be stated")
    return Claim(max_bytes=1 * MIB)  # SGLANG_MSCCLPP_MAX_BYTES


def _flashinfer_flags(release: Release) -> tuple[str, ...]:
    if release < (0, 5, 15):
        return ("--enable-flashinfer-allreduce-fusion",)
    return ("--flashinfer-allreduce-fusion-backend", "auto")


def _flashinfer(host: Host) -> Claim | Refusal:
    if host.arch_major not in (9, 10):
        return Refusal(f"FlashInfer's all-reduce fusion serves SM9x and SM10x, not SM{host.arch_major}x")
    return Claim(dtypes=frozenset({"bf16", "fp16"}), min_dims=2)


def _shm(host: Host) -> Claim | Refusal:
    # The same rule as ``eligible`` in fixtures/cpu_stack, shm.py.
    if not host.path_limit_bytes:
        return Refusal("the shm path has no size limit set")
    return Claim(multiple_of_bytes=16, max_bytes=host.path_limit_bytes)


_CUSTOM_REFUSALS = (
    r"is disabled because it's not supported on more than two PCIe-only GPUs",
    r"is disabled because this process group spans across nodes",
    r"is disabled due to an unsupported world size",
    r"is disabled because your platform lacks GPU P2P capability",
    r"Setup Custom allreduce failed",
)

PATHS: dict[str, Path] = {
    path.name: path
    for path in (
        Path(
            "nccl",
            kernels=(r"nccl(Dev)?Kernel_AllReduce",),
            claim=_everything,
            flags=_no_custom,
            settings={"disable_custom_all_reduce": True},
        ),
        Path(
            "custom_v1",
            kernels=(r"cross_device_reduce_[12]stage",),
            claim=_custom_v1,
            env={"SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2": "0"},
            refusals=_CUSTOM_REFUSALS,
            accumulates_fp32=lambda world_size: True,
        ),
        Path(
            "custom_v2",
            kernels=(r"all_reduce_[12]shot_(push|pull)_kernel",),
            claim=_custom_v2,
            refusals=_CUSTOM_REFUSALS,
            accumulates_fp32=lambda world_size: True,
            since=(0, 5, 12),
        ),
        Path(
            "pcie_ipc",
            kernels=(
                r"ipc_tp2_remote_push_kernel",
                r"ipc_(topo_)?rsag8?_\w*param_kernel",
                r"push_oneshot_param_kernel",
            ),
            claim=_pcie_ipc,
            # At 2 ranks custom all-reduce stands before it in the dispatch.
            flags=_no_custom,
            env={"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1"},
            settings={"disable_custom_all_reduce": True},
            refusals=(
                r"FlashInfer PCIe-IPC workspace .* failed",
                r"has no pcie_ipc_comm; falling back to NCCL",
                r"Setup FlashInfer PCIe-IPC allreduce failed",
                r"leaving PCIe-IPC all-reduce off",
                r"PCIe-IPC all-reduce skipped: unsupported world size",
                r"sizing its workspace from the fixed fallback width",
            ),
            # flashinfer pcie_ipc_all_reduce.cuh: the 8-rank block kernel rounds each island's sum before it
            # adds the two (reduce_loaded_packs<T, 4>, then <T, 2>).
            accumulates_fp32=lambda world_size: world_size < 8,
            since=(0, 5, 23),
        ),
        Path(
            "torch_symm_mem",
            kernels=(r"(multimem|two_shot|one_shot)_all_reduce_kernel",),
            claim=_torch_symm_mem,
            flags=lambda release: ("--enable-torch-symm-mem", *_no_custom(release)),
            settings={"enable_torch_symm_mem": True, "disable_custom_all_reduce": True},
            refusals=(r"TorchSymmMemCommunicator: .* not (supported|available)",),
        ),
        Path(
            "nccl_symm_mem",
            kernels=(r"ncclSymk?DevKernel_AllReduce",),
            claim=_everything,
            flags=lambda release: ("--enable-symm-mem", *_no_custom(release)),
            settings={"enable_symm_mem": True, "disable_custom_all_reduce": True},
        ),
        Path(
            "flashinfer_fusion",
            kernels=(
                r"allreduce_fusion_kernel_(oneshot_lamport|twoshot_sync)",
                r"(one|two)shotAllreduceFusionKernel",
            ),
            claim=_flashinfer,
            flags=_flashinfer_flags,
            # Fused with the RMSNorm in the layers; its workspace is built from the server's arguments.
            in_worker=False,
        ),
        Path(
            "mscclpp",
            kernels=(r"\bmscclpp::", r"\ballreduce_LL_[12]node"),
            claim=_mscclpp,
            flags=lambda release: ("--enable-mscclpp", *_no_custom(release)),
            settings={"enable_mscclpp": True, "disable_custom_all_reduce": True},
            refusals=(r"PyMscclpp is (unavailable|disabled)", r"did not produce any usable tuned"),
        ),
        Path("gloo", kernels=(r"gloo:all_reduce",), claim=_everything),
        Path(
            "shm",
            kernels=(r"sglgate::shm_all_reduce",),
            claim=_shm,
            refusals=(r"Failed to (load|execute)( general)? plugin:? sglgate_shm_all_reduce",),
            accumulates_fp32=lambda world_size: True,
        ),
    )
}

# What may be varied for NCCL by a candidate's environment; each name stands in libnccl itself.
NCCL_VARIABLES = (
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_BUFFSIZE",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_P2P_LEVEL",
)
SHM_LIMIT_VARIABLE = "SGLGATE_SHM_ALLREDUCE_BYTES"
FLAGS_OF_PATHS = (
    "--disable-custom-all-reduce",
    "--enable-mscclpp",
    "--enable-torch-symm-mem",
    "--enable-symm-mem",
    "--enable-flashinfer-allreduce-fusion",
    "--flashinfer-allreduce-fusion-backend",
)
_SETTING_OF_FLAG = {
    "--disable-custom-all-reduce": "disable_custom_all_reduce",
    "--enable-mscclpp": "enable_mscclpp",
    "--enable-torch-symm-mem": "enable_torch_symm_mem",
    "--enable-symm-mem": "enable_symm_mem",
}


def path(name: str) -> Path:
    """The path of that name.

    Raises:
        MisuseError: there is none; says which one may be meant.
    """
    if name not in PATHS:
        close = nearest(name, PATHS)
        hint = f"did you mean {close}?" if close else f"one of {', '.join(PATHS)}"
        raise MisuseError("unknown all-reduce path", key="expect.allreduce.path", value=name, expected=hint)
    return PATHS[name]


def claim(name: str, host: Host) -> Claim | Refusal:
    """What the path serves on that host, or why it serves nothing there."""
    chosen = path(name)
    if host.release < chosen.since:
        since = ".".join(map(str, chosen.since))
        return Refusal(f"SGLang {'.'.join(map(str, host.release))} has no {name}; it came with {since}")
    return chosen.claim(host)


def worker_settings(flags: Sequence[str]) -> dict[str, bool]:
    """A candidate's server flags as the worker's switches; those not about all-reduce are left out."""
    return {setting: True for flag, setting in _SETTING_OF_FLAG.items() if flag in flags}


def server_environment(flags: Sequence[str]) -> dict[str, str]:
    """What SGLang's launcher adds to its environment before NCCL starts, and a worker therefore needs.

    engine.py, ``_set_envs_and_config``, 0.5.9 and 0.5.23. The caller's own values go over these.
    """
    symmetric = "--enable-symm-mem" in flags
    multicast = symmetric or "--enable-nccl-nvls" in flags
    return {
        "NCCL_CUMEM_ENABLE": str(int(symmetric)),
        "NCCL_NVLS_ENABLE": str(int(multicast)),
        "CUDA_DEVICE_MAX_CONNECTIONS": "8",
    }
