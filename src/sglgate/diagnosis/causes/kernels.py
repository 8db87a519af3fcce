"""Causes inside kernels, their compilers and their libraries."""

# A wording that is broken over lines cannot be searched for.
# ruff: noqa: E501, S108
from __future__ import annotations

from typing import Final

from sglgate.diagnosis.model import Cause, Grade, sig

# fmt: off
CAUSES: Final = (
    Cause(
        "kernel_arch_unsupported",
        "a kernel has no code for this architecture, or a backend refuses it",
        "choose another backend (attention, MoE, GEMM, all-reduce fusion) or a wheel built for this architecture",
        "do not follow the memory hints printed below a failed capture: they are printed for every error there",
        (
            sig("kernel_arch_unsupported.no_image", "no kernel image is available", "cudaErrorNoKernelImageForDevice", "CUDA_ERROR_NO_BINARY_FOR_GPU"),
            sig("kernel_arch_unsupported.flashinfer", "No supported CUDA architectures found"),
            sig("kernel_arch_unsupported.torch", "is not compatible with the current PyTorch installation"),
            sig("kernel_arch_unsupported.arch_conditional", "Arch conditional MMA instruction used without targeting"),
            sig("kernel_arch_unsupported.fp8e4nv", "fp8e4nv not supported in this architecture"),
            sig("kernel_arch_unsupported.only_on", "Error", "Exception", "only supported on", raised=True,
                pattern=r"(?i)only support(?:s|ed)? (?:on |for )?.{0,40}?(?:\bsm[_ ]?\d+|hopper|blackwell|ampere|compute capability|SM>=|GPUs? with)"),
            sig("kernel_arch_unsupported.requires", "Error", "Exception", raised=True, pattern=r"(?i)requires? (?:at least |a |an |GPU |CUDA )*(?:sm[_ ]?\d+|SM ?>=|compute capability|hopper|blackwell|NVIDIA (?:hopper|blackwell))"),
            sig("kernel_arch_unsupported.not_supported_sm", "Error", "Exception", "ompute capability", "ompute Capability", raised=True,
                pattern=r"(?i)(?:unsupported|not supported|does not support|doesn't support|not implemented|no kernel)[^.]{0,80}\b(?:sm[_ ]?\d{2,3}a?|compute capability|architecture)|(?:\bsm[_ ]?\d{2,3}[af]?|compute capability|cuda arch\w*)\b[^.]{0,60}(?:unsupported|not supported|is not supported|not implemented)",
                unless=r"architectures"),
            sig("kernel_arch_unsupported.backend_capability", "with capability", "No compiled ", "device capability:", pattern=r"does not support backend .* with capability (?P<capability>\d+)|No compiled \S+ for .*capability"),
            sig("kernel_arch_unsupported.not_for_family", "Error", raised=True, pattern=r"(?i)not (?:yet )?(?:implemented|supported|available) (?:for|on) (?:blackwell|hopper|ampere|ada|turing|volta)\b"),
            sig("kernel_arch_unsupported.no_tactics", "No valid tactics", "no valid tactic", confidence="likely"),
            sig("kernel_arch_unsupported.deep_gemm_scales", "sfa_dtype ==", confidence="likely"),
            sig("kernel_arch_unsupported.unsupported_arch", "nsupported architecture", "nsupported arch", "nsupported GPU arch", "nsupported CUDA arch", unless=r"nvcc|ptxas|architectures"),
            sig("kernel_arch_unsupported.min_capability", "inimum capability", pattern=r"(?i)current GPU.*minimum capability|minimum capability:? ?(?P<minimum_capability>\d+)", confidence="likely"),
            sig("kernel_arch_unsupported.bfloat16", "Bfloat16 is only supported on GPUs", "bfloat16 is only supported on GPUs"),
            sig("kernel_arch_unsupported.device_function", "invalid device function", "cudaErrorInvalidDeviceFunction", confidence="likely"),
            sig("kernel_arch_unsupported.kernel_image", "device kernel image is invalid", "cudaErrorInvalidKernelImage", confidence="likely"),
            sig("kernel_arch_unsupported.deep_gemm", "nknown SM", "nsupported SM", "Unknown recipe", "SM architecture", pattern=r"(?i)(?:unknown|unsupported) (?:sm|recipe)|sm architecture"),
            sig("kernel_arch_unsupported.fa", "FlashAttention v3 Backend requires", "FlashAttention only supports", "FlashMLA is only supported"),
            sig("kernel_arch_unsupported.cutlass", "Error", "cutlass_", raised=True, pattern=r"(?i)cutlass.*(?:error internal|not supported|no implementation|unsupported)|can_implement", grade=Grade.SYMPTOM, confidence="likely"),
            sig("kernel_arch_unsupported.cutlass_status", "cutlass::Status::kSuccess", grade=Grade.SYMPTOM, confidence="likely"),
            sig("kernel_arch_unsupported.backend_gate", "only supported on", "supported on Blackwell", "supported on Hopper", "supported on SM", pattern=r"(?:TRTLLM|CuteDSL|CUTLASS|FlashMLA) M[HL]A backend.*only supported on|\bOnly \S.* (?:backends?|kernels?) (?:are|is) supported on (?:Blackwell|Hopper|SM ?\d+)", raised=True),
            sig("kernel_arch_unsupported.gemm_init", "GEMM initialization failed", "group_gemm.initialize failed", confidence="likely", grade=Grade.SYMPTOM),
            sig("kernel_arch_unsupported.capability_assert", "assert ", pattern=r"assert .*(?:is_sm\d+|is_hopper|is_blackwell|get_device_capability|device_capability|capability)", confidence="likely"),
        ),
    ),
    Cause(
        "kernel_resource_limit",
        "a kernel asks for more shared memory or registers than the card has (SM120: about 99 KiB a block)",
        "choose another backend or a smaller tile (block size, number of stages)",
        "do not change memory fractions: this is the SM's shared memory, not the card's",
        (
            sig("kernel_resource_limit.triton", "out of resource: ", "OutOfResources",
                pattern=r"(?:OutOfResources|out of resource)(?:.*?out of resource)?(?:: (?P<resource>[\w ]+), Required: (?P<required>\d+), Hardware limit: (?P<limit>\d+))?"),
            sig("kernel_resource_limit.launch", "too many resources requested for launch", "cudaErrorLaunchOutOfResources"),
            sig("kernel_resource_limit.smem", "shared memory", "smem", pattern=r"(?i)(?:insufficient|exceeds?|not enough|too much|requires? more)[^.]{0,40} shared memory|shared memory[^.]{0,60}(?:exceeds?|too large|limit exceeded|insufficient)", unless=r"/dev/shm|\(shm\)|segment"),
            sig("kernel_resource_limit.smem_attribute", "MaxDynamicSharedMemorySize", pattern=r"MaxDynamicSharedMemorySize.*invalid|invalid.*MaxDynamicSharedMemorySize", confidence="likely"),
            sig("kernel_resource_limit.flashinfer", "Unsupported max_mma_kv", "max_mma_kv: 0"),
            sig("kernel_resource_limit.flashinfer_tile", "Invalid configuration : NUM_MMA", confidence="likely"),
            sig("kernel_resource_limit.stages", "assert num_stages", pattern=r"assert num_stages >= 1", confidence="likely"),
            sig("kernel_resource_limit.tma_ws", "Failed to initialize cutlass TMA WS grouped gemm", confidence="likely"),
            sig("kernel_resource_limit.smem_assert", "smem_capacity", "smem_size", pattern=r"^assert |Assertion|Error", unless=r"(?i)illegal memory access", confidence="likely"),
        ),
    ),
    Cause(
        "jit_compile_failure",
        "a kernel that is compiled at run time did not compile (nvcc, ninja, Triton, DeepGEMM, inductor)",
        "install what the compiler lacks (toolkit, ninja, host compiler, headers), set the architecture list, clean the compile "
        "caches (~/.cache/flashinfer, ~/.triton, ~/.cache/deep_gemm, tvm-ffi) and start again",
        "do not follow the memory hints printed below a failed capture: they are printed for every error there",
        (
            sig("jit_compile_failure.ninja", "ninja: build stopped", "Ninja build failed", "ninja: error", "Error building extension", "ninja exited with status"),
            sig("jit_compile_failure.nvcc", "nvcc fatal", "nvcc error", "nvlink error", "nvlink fatal", "NVCC compilation failed", "NVCC compil"),
            sig("jit_compile_failure.ptxas", "ptxas fatal", "ptxas error", "PTXAS error", "PTX codegen error", "ptxas failed"),
            sig("jit_compile_failure.nvrtc", "nvrtc: error", "NVRTC_ERROR", "NVRTC compilation failed"),
            sig("jit_compile_failure.missing_tool", "No such file or directory: 'nvcc'", "No such file or directory: 'ninja'", "No such file or directory: 'gcc'", "No such file or directory: 'g++'", "nvcc: not found", "nvcc: command not found", "Ninja is required to load C++ extensions", "Could not find nvcc", "Failed to find nvcc", "nvcc not found", "No module named 'ninja'"),
            sig("jit_compile_failure.nvcc_path", "No such file or directory: '", pattern=r"No such file or directory: '[^']*/(?:nvcc|ninja|gcc|g\+\+|cc|c\+\+|clang|cuobjdump|nvdisasm|ptxas)'"),
            sig("jit_compile_failure.cuda_home", "CUDA_HOME environment variable is not set", "Could not find CUDA installation", "CUDA_HOME is not set", "Please set CUDA_HOME"),
            sig("jit_compile_failure.c_compiler", "Failed to find C compiler", "fatal error: Python.h", "fatal error: cuda", "fatal error: nv/", "fatal error: cub/", "fatal error: cute/", "fatal error: cutlass/", "fatal error: thrust/", "fatal error: math.h"),
            sig("jit_compile_failure.header", "fatal error: ", pattern=r"fatal error: [\w./+-]+\.(?:h|hpp|cuh)\b.*(?:No such file|not found)|fatal error: [\w./+-]+: No such file"),
            sig("jit_compile_failure.linker", "cannot find -l", "ld returned 1 exit status", "collect2: error"),
            sig("jit_compile_failure.command", "CalledProcessError", pattern=r"\b(?:gcc|g\+\+|cc|nvcc|ninja|clang|ptxas)\b"),
            sig("jit_compile_failure.triton", "CompilationError", "PassManager::run failed", "MLIR", "failed to legalize operation", "LLVM ERROR", pattern=r"triton|CompilationError|PassManager|MLIR|legalize|LLVM ERROR"),
            sig("jit_compile_failure.inductor", "InductorError", "BackendCompilerFailed", "torch._dynamo.exc", "dynamo.exc.", confidence="likely"),
            sig("jit_compile_failure.deep_gemm", "Error", "DeepGEMM", raised=True, pattern=r"(?i)deep_?gemm.*(?:compil|jit|nvcc|kernel_runtime)|Assertion error \(\S*(?:/jit/|compiler\.|kernel_runtime)", confidence="likely"),
            sig("jit_compile_failure.tilelang", "Error", raised=True, pattern=r"(?i)(?:tilelang|tvm).*(?:compil|codegen|lower)", grade=Grade.SYMPTOM, confidence="likely"),
        ),
    ),
    Cause(
        "cuda_toolchain_mismatch",
        "driver, CUDA runtime, torch and kernel wheels do not belong together, or one of them is missing",
        "align the versions: torch, the kernel package and FlashInfer for the same CUDA, and a driver that is new enough; "
        "install the library that is named",
        "do not reinstall only the package in whose name the error is raised: the missing piece is the library it names",
        (
            sig("cuda_toolchain_mismatch.library", "cannot open shared object file", unless=r"NCCL INFO|NET/Plugin|dlerror|lib\w+-(?:net|tuner|env)|\bplugin\b", pattern=r"(?P<library>lib(?:cuda|cudart|nvrtc|cublas|cublasLt|cudnn|cufft|curand|cusolver|cusparse|cusparseLt|nccl|nvshmem\w*|nvJitLink|cupti|nvToolsExt|torch\w*|c10\w*|cufile|nvidia-ml|amdhip64|hip\w*|rocm\w*)[\w-]*\.so[\d.]*)"),
            sig("cuda_toolchain_mismatch.symbol", "undefined symbol", pattern=r"undefined symbol:? ?(?P<symbol>\w+)?"),
            sig("cuda_toolchain_mismatch.driver_insufficient", "CUDA driver version is insufficient for CUDA runtime version", "cudaErrorInsufficientDriver", "CUDA_ERROR_INSUFFICIENT_DRIVER"),
            sig("cuda_toolchain_mismatch.driver_old", "The NVIDIA driver on your system is too old"),
            sig("cuda_toolchain_mismatch.no_driver", "Found no NVIDIA driver on your system", "libcuda.so cannot found", "libcuda.so not found", "libcuda.so.1 not found", "nvidia-smi not found"),
            sig("cuda_toolchain_mismatch.driver_library", "Driver/library version mismatch", "unsupported display driver / cuda driver combination", "cudaErrorSystemDriverMismatch", "forward compatibility was attempted on non supported HW", "cudaErrorCompatNotSupportedOnDevice"),
            sig("cuda_toolchain_mismatch.ptx", "PTX was compiled with an unsupported toolchain", "cudaErrorUnsupportedPtxVersion", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "unsupported toolchain"),
            sig("cuda_toolchain_mismatch.torch_cuda", "were compiled with different CUDA", "compiled with different CUDA major versions"),
            sig("cuda_toolchain_mismatch.versions", "CUDA version", pattern=r"(?i)detected CUDA version.*mismatch|mismatch(?:es|ed)?.*CUDA version|CUDA version.*(?:mismatch|does not match|is not compatible)"),
            sig("cuda_toolchain_mismatch.not_compiled", "Torch not compiled with CUDA enabled"),
            sig("cuda_toolchain_mismatch.unknown_error", "CUDA unknown error - this may be due to an incorrectly set up environment", confidence="likely"),
            sig("cuda_toolchain_mismatch.cudnn_version", "CUDNN_STATUS_NOT_INITIALIZED", "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", "cuDNN version incompatibility", confidence="likely"),
            sig("cuda_toolchain_mismatch.nvml", "NVMLError_LibRmVersionMismatch", "NVMLError_LibraryNotFound", "NVMLError_DriverNotLoaded", "NVML Shared Library Not Found"),
            sig("cuda_toolchain_mismatch.cublas", "CUBLAS_STATUS_INVALID_VALUE", "CUBLAS_STATUS_NOT_INITIALIZED", grade=Grade.SYMPTOM, confidence="likely"),
            sig("cuda_toolchain_mismatch.cudnn_guard", "CuDNN Compatibility", "& CuDNN", raised=True),
        ),
    ),
    Cause(
        "illegal_memory_access",
        "a compute kernel touched memory that is not its own",
        "start with CUDA_LAUNCH_BLOCKING=1 to find the kernel, then choose another backend for it",
        "do not trust the file in the message: the error is asynchronous and surfaces in whatever runs next",
        (
            sig("illegal_memory_access.cuda", "illegal memory access", "CUDA_ERROR_ILLEGAL_ADDRESS", "cudaErrorIllegalAddress", "Warp Illegal Address", "Memory access fault by GPU", grade=Grade.SYMPTOM, confidence="certain"),
            sig("illegal_memory_access.misaligned", "misaligned address", "cudaErrorMisalignedAddress", "CUDA_ERROR_MISALIGNED_ADDRESS", "unspecified launch failure", "CUDA_ERROR_LAUNCH_FAILED", "cudaErrorLaunchFailure", "illegal instruction was encountered", grade=Grade.SYMPTOM, confidence="likely"),
            sig("illegal_memory_access.xid", "Xid", pattern=r"Xid (?:error |\(?[^,]*?\)?: )?(?P<xid>13|31|43|45)\b", grade=Grade.SYMPTOM, confidence="likely"),
            sig("illegal_memory_access.assert_line", "], thread: [", pattern=r"block: \[\d+,\d+,\d+\], thread: \[\d+,\d+,\d+\] Assertion", grade=Grade.SYMPTOM, confidence="likely"),
            sig("illegal_memory_access.device_assert", "device-side assert triggered", "cudaErrorAssert", grade=Grade.SYMPTOM, confidence="likely"),
        ),
    ),
)
