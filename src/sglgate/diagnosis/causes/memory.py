"""Causes about memory: the card's, the host's, and /dev/shm."""

# A wording that is broken over lines cannot be searched for.
# ruff: noqa: E501, S108
from __future__ import annotations

from typing import Final

from sglgate.diagnosis.model import Cause, Grade, Phase, Signature, sig

# Torch, the CUDA runtime and driver, cuBLAS, NCCL, TVM and ROCm each say it in their own words.
_OOM: Final = (
    "CUDA out of memory",
    "OutOfMemoryError",
    "CUDA error: out of memory",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "cudaErrorMemoryAllocation",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "HIP out of memory",
    "NPU out of memory",
    "XPU out of memory",
    "MUSA out of memory",
    "HIP error: out of memory",
    "Error [CUDA]: out of memory",
    "driver error: out of memory",
    "with error out of memory",
    "error code is 207001",
    "hipErrorOutOfMemory",
    "ailure 2 'out of memory'",
    "ailure 'out of memory'",
    "failed: out of memory",
    "Failed to CUDA calloc",
    "Failed to cuMemCreate",
    "Cuda error: out of memory",
    "CUDA Error: out of memory",
    "error 2 'out of memory'",
)
_SAVER: Final = (
    "CUresult error: 2 ",
    "CUresult error  result=2 ",
    "cudaError error: 2 ",
    "hipError_t error  result=2 ",
)
_CLASS_ONLY: Final = r"class OutOfMemoryError|except \S*OutOfMemoryError"
# A kernel called through TVM's FFI allocates its scratch in a forward pass, never for weights.
_TVM: Final = r"tvm\S*\.InternalError"


def _oom(name: str, *phases: Phase) -> Signature:
    return sig(name, *_OOM, unless=_CLASS_ONLY, phases=phases)


# fmt: off
CAUSES: Final = (
    Cause(
        "kv_budget_exhausted",
        "the weights fit, but the memory fraction leaves no room for the KV pool",
        "raise --mem-fraction-static, or put fewer or smaller weights on each rank (more TP, quantised weights), "
        "or use an fp8 KV cache",
        "do not lower --mem-fraction-static: it counts the weights in, so a smaller fraction leaves even less",
        (
            sig("kv_budget_exhausted.not_enough", "Not enough memory. Please try to increase --mem-fraction-static"),
            sig("kv_budget_exhausted.allocate", "Not enough memory to allocate KV cache"),
            sig(
                "kv_budget_exhausted.weights_leave_none",
                "Loaded weights leave no GPU memory for the KV cache",
                pattern=r"leave no GPU memory(?:.*?--mem-fraction-static=(?P<mem_fraction_static>\d+(?:\.\d+)?|None).*?above (?P<advised_fraction>\d+(?:\.\d+)?) .*?= (?P<minimum_fraction>\d+\.\d+))?",
            ),
            sig("kv_budget_exhausted.swa", "cannot hold even one request"),
            sig("kv_budget_exhausted.mamba", "Not enough GPU memory for hybrid", "Not enough memory for the mamba"),
            sig("kv_budget_exhausted.unified", "byte budget", pattern=r"byte budget \d+ cannot fit"),
            sig(
                "kv_budget_exhausted.negative_profile",
                "larger than the profiled value -",
                pattern=r"profiled value (?P<profiled_tokens>-\d+)",
            ),
            sig(
                "kv_budget_exhausted.negative_dimension",
                "negative dimension",
                pattern=r"[Tt]rying to create tensor with negative dimension (?P<dimension>-\d+)",
                frames=r"memory_pool|kv_cache|mem_cache",
                confidence="likely",
            ),
        ),
    ),
    Cause(
        "weights_oom",
        "the card ran out of memory while weights were created or loaded (the draft's included)",
        "use more tensor parallelism or quantised weights, or free the card of other processes",
        "do not tune --mem-fraction-static: weights are loaded before it matters",
        (
            _oom("weights_oom.cuda", Phase.CONFIG, Phase.WEIGHTS),
            sig("weights_oom.memory_saver", *_SAVER, phases=(Phase.WEIGHTS,), confidence="likely"),
            sig("weights_oom.early", *_OOM, unless=_CLASS_ONLY + "|" + _TVM, phases=(Phase.START,), confidence="likely"),
            sig("weights_oom.loading", "checkpoint shards:", "loading shards:", "Error while loading ", phases=(Phase.START,), grade=Grade.HINT),
        ),
    ),
    Cause(
        "graph_capture_oom",
        "the card ran out of memory while CUDA graphs were captured, after the KV pool had taken its share",
        "lower --mem-fraction-static, or capture smaller batch sizes",
        "do not raise --mem-fraction-static: the pool would take what the graphs need",
        (
            _oom("graph_capture_oom.cuda", Phase.GRAPH_CAPTURE),
            sig("graph_capture_oom.memory_saver", *_SAVER, phases=(Phase.GRAPH_CAPTURE,), confidence="likely"),
            sig("graph_capture_oom.wrapped", *_OOM, pattern=r"(?i)capture \w* ?graphs? failed|graph capture failed", unless=_CLASS_ONLY),
        ),
    ),
    Cause(
        "runtime_oom",
        "the card ran out of memory while serving",
        "lower --mem-fraction-static, --chunked-prefill-size or --max-running-requests",
        "do not raise --mem-fraction-static: activations live outside it",
        (
            _oom("runtime_oom.cuda", Phase.WARMUP, Phase.SERVING),
            sig("runtime_oom.tvm", *_OOM, pattern=_TVM, phases=(Phase.START,), confidence="likely"),
            sig("runtime_oom.memory_saver", *_SAVER, phases=(Phase.START, Phase.CONFIG, Phase.KV_POOL, Phase.WARMUP, Phase.SERVING), confidence="likely", remedy="the memory saver found no room: lower --mem-fraction-static, or let what shares the card (the trainer) release its memory first"),
            sig("runtime_oom.prefill", "Prefill out of memory. Try to lower your batch size", confidence="likely"),
            sig("runtime_oom.decode", "Decode out of memory. Try to lower your batch size", confidence="likely"),
            sig("runtime_oom.load", "bench_serving", "--max-concurrency", "--num-prompt", grade=Grade.HINT),
            sig("runtime_oom.hsa", "HSA_STATUS_ERROR_OUT_OF_RESOURCES", grade=Grade.SYMPTOM, confidence="likely"),
        ),
    ),
    Cause(
        "gpu_memory_held",
        "another process (often a leftover of the last run) holds memory on the card",
        "find the process that holds the memory (nvidia-smi, fuser -v /dev/nvidia*) and end it, then start again",
        "do not change --mem-fraction-static to fit around a leftover process",
        (
            sig(
                "gpu_memory_held.unbalanced",
                "The memory capacity is unbalanced",
                pattern=r"unbalanced(?:.*?_memory=(?P<min_free_gib>\d+(?:\.\d+)?), local_gpu_memory=(?P<local_free_gib>\d+(?:\.\d+)?))?",
                raised=True,
                confidence="likely",
            ),
            sig("gpu_memory_held.dist_init", *_OOM, unless=_CLASS_ONLY, phases=(Phase.DIST_INIT,), confidence="likely"),
            sig("gpu_memory_held.not_idle", "GPU(s) still not idle"),
            sig("gpu_memory_held.free_too_small", "Free memory on device", pattern=r"Free memory on device .* is less than", confidence="likely"),
        ),
    ),
    Cause(
        "shm_too_small",
        "/dev/shm is too small for the shared segments of NCCL or of the message broadcaster",
        "start the container with a larger --shm-size (16g or more) or --ipc=host",
        "do not read it as a full disk: only /dev/shm is short",
        (
            sig("shm_too_small.nccl", "Error while creating shared memory segment", "shared memory segment /dev/shm"),
            sig("shm_too_small.no_space", "No space left on device", pattern=r"/dev/shm|shared memory|'/?psm_|shm_open|nccl-"),
            sig("shm_too_small.fallocate", "posix_fallocate failed"),
            sig(
                "shm_too_small.no_space_frames",
                "No space left on device",
                frames=r"shared_memory|shm_broadcast|multiprocessing",
                confidence="likely",
            ),
            sig("shm_too_small.insufficient", "insufficient shared memory (shm)"),
            sig("shm_too_small.open", "unable to open shared memory object", "unable to mmap", pattern=r"shared memory|/dev/shm|torch_", unless=r"Too many open files|Cannot allocate memory", confidence="likely"),
            sig("shm_too_small.bus", "Bus error", "SIGBUS", "exit code -7", "exitcode=-7", grade=Grade.WEAK, confidence="likely"),
        ),
    ),
    Cause(
        "host_oom_killed",
        "a process was killed from outside (-9, 137): the kernel's OOM killer or the container's memory limit",
        "give the host or the container more memory, load fewer ranks at a time or map the weights (safetensors); "
        "`dmesg` or the container's state says who killed it",
        "do not change GPU memory settings: this was the host's memory",
        (
            sig("host_oom_killed.kernel", "Out of memory: Kill", "oom-kill:", "Memory cgroup out of memory", "oom_reaper"),
            sig("host_oom_killed.container", "OOMKilled", pattern=r"OOMKilled(?!\W{1,4}false)"),
            sig("host_oom_killed.cpu_allocator", "DefaultCPUAllocator: can't allocate memory", "DefaultCPUAllocator: not enough memory", confidence="likely"),
            sig("host_oom_killed.errno", "Cannot allocate memory", pattern=r"Errno 12|mmap|fork|Cannot allocate memory \(12\)", confidence="likely"),
            sig("host_oom_killed.hierarchical_cache", "Not enough host memory", confidence="likely", remedy="lower --hicache-size or --hicache-ratio, or give the host more memory"),
            sig("host_oom_killed.python", "MemoryError", pattern=r"^MemoryError\b", confidence="likely"),
            sig("host_oom_killed.bad_alloc", "std::bad_alloc", confidence="likely"),
            sig(
                "host_oom_killed.signal",
                "exit code -9",
                "exit code: -9",
                "Exit code: -9",
                "Exit Code: 137",
                "exitcode -9",
                "exitcode: -9",
                "exitcode=-9",
                "exit code 137",
                "exit code: 137",
                "code=137",
                "signal: Killed",
                "signal 9",
                "SIGKILL",
                pattern=r"(?i)(?:exit ?code|code|signal|died|killed|exited)",
                unless=r"(?i)send|kill_process_tree|\bp?kill -9|exit code: (?!-9\b)-?\d+\)\. If exit code is",
                grade=Grade.WEAK,
                confidence="likely",
            ),
            sig("host_oom_killed.shell", "Killed", pattern=r"^(?:.*: line \d+:\s+\d+ )?Killed\b", grade=Grade.WEAK, confidence="likely"),
        ),
    ),
)
