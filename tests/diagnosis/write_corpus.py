"""Write ``corpus/written``: whole logs in the formats of several releases, for the causes that no CPU can provoke.

    python tests/diagnosis/write_corpus.py

The beginnings follow the wheels of 0.5.5, 0.5.9, 0.5.15 and 0.5.23 line by line; the failures are the texts of the libraries that
raise them. Every log is deterministic, so a change of this script shows in the diff of the logs.
"""

# ruff: noqa: E501 - log lines are long
from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

OUT = Path(__file__).resolve().parent / "corpus" / "written"
STAGES = ("start", "dist", "weights", "pool", "graphs", "ready", "serving")
SCHEDULER = ("managers/scheduler.py", 3022, "run_scheduler_process")
INIT = (
    SCHEDULER,
    ("managers/tp_worker.py", 325, "_init_model_runner"),
    ("model_executor/model_runner.py", 391, "__init__"),
)
LOAD = (
    *INIT,
    ("model_executor/model_runner.py", 909, "load_model"),
    ("model_loader/loader.py", 677, "load_model"),
)
DIST = (*INIT, ("model_executor/model_runner.py", 800, "init_torch_distributed"))
CAPTURE = (
    *INIT,
    ("model_executor/model_runner.py", 2156, "init_device_graphs"),
    ("model_executor/cuda_graph_runner.py", 380, "__init__"),
)
SERVE = (
    SCHEDULER,
    ("managers/scheduler.py", 1110, "event_loop_overlap"),
    ("managers/scheduler.py", 2290, "run_batch"),
)


@dataclass
class Log:
    """A log under construction; the clock advances with every line."""

    version: str = "0.5.9"
    tp: int = 1
    lines: list[str] = field(default_factory=list)
    clock: int = 0
    arguments: dict[str, object] = field(default_factory=dict)

    def say(self, text: str, rank: int | None = None) -> None:
        """One stamped line."""
        self.clock += 1
        stamp = f"2026-03-01 {9 + self.clock // 3600:02d}:{self.clock // 60 % 60:02d}:{self.clock % 60:02d}"
        mark = "" if rank is None or self.tp == 1 else f" TP{rank}"
        self.lines.append(f"[{stamp}{mark}] {text}")

    def raw(self, text: str) -> None:
        """Lines as they are."""
        self.lines += text.strip("\n").split("\n")

    def all(self, text: str) -> None:
        """The same line from every rank, the last rank first."""
        for rank in reversed(range(self.tp)):
            self.say(text, rank)

    def until(self, stage: str, fraction: float = 0.85) -> Log:
        """The healthy beginning up to ``stage``."""
        values: dict[str, object] = {
            "model_path": "/srv/models/m", "host": "0.0.0.0", "port": 30000, "mem_fraction_static": fraction, "context_length": 131072,
            "tp_size": self.tp, "cuda_graph_max_bs": 256, "speculative_algorithm": None, "attention_backend": "flashinfer", **self.arguments,
        }  # fmt: skip
        if self.version < "0.5.2":
            self.say("server_args=" + repr(values))
        elif self.version == "0.5.23":
            self.say(f"server_args={values!r}")
        else:
            self.say("server_args=ServerArgs(" + ", ".join(f"{k}={v!r}" for k, v in values.items()) + ")")
        for name, step in zip(STAGES, ("", "_dist", "_weights", "_pool", "_graphs", "_ready", "_serving"), strict=True):
            if step:
                getattr(self, step)()
            if name == stage:
                return self
        return self

    def _dist(self) -> None:
        new = self.version == "0.5.23"
        self.all("Init parallel begin." if new else "Init torch distributed begin.")
        if self.tp > 1:
            self.say("sglang is using nccl==2.27.5", 0)
        ends = {
            "0.5.5": "Init torch distributed ends. mem usage=1.20 GB",
            "0.5.23": "Memory baseline taken. mem usage=1.20 GB",
        }
        self.all(ends.get(self.version, "Init torch distributed ends. elapsed=2.10 s, mem usage=1.20 GB"))

    def _weights(self) -> None:
        self.all("Load weight begin. avail mem=93.80 GB")
        self.raw(
            "Loading safetensors checkpoint shards:   0% Completed | 0/4 [00:00<?, ?it/s]\rLoading safetensors checkpoint shards: 100% Completed | 4/4 [00:09<00:00,  2.30s/it]"
        )
        elapsed = "" if self.version == "0.5.5" else "elapsed=11.20 s, "
        kind = "dtype=torch.bfloat16, " if self.version in ("0.5.5", "0.5.9") else ""
        self.all(f"Load weight end. {elapsed}type=LlamaForCausalLM, {kind}avail mem=40.10 GB, mem usage=53.70 GB.")

    def _pool(self) -> None:
        dtype = "dtype: torch.bfloat16, " if self.version in ("0.5.15", "0.5.23") else ""
        self.all(f"KV Cache is allocated. {dtype}#tokens: 210432, K size: 12.84 GB, V size: 12.84 GB")
        self.all("Memory pool end. avail mem=14.01 GB")

    def _graphs(self) -> None:
        if self.version in ("0.5.15", "0.5.23"):
            self.all("Capture target decode CUDA graph begin. backend=full, num_tokens_per_req=1, avail mem=13.80 GB")
        else:
            self.all("Capture cuda graph begin. This can take up to several minutes. avail mem=13.80 GB")
            self.say("Capture cuda graph bs [1, 2, 4, 8, 16, 32, 64, 128, 256]", 0)
        self.raw(
            "\rCapturing batches (bs=256 avail_mem=13.10 GB):   0%|          | 0/9 [00:00<?, ?it/s]\rCapturing batches (bs=128 avail_mem=12.60 GB):  11%|#         | 1/9 [00:01<00:09,  1.2s/it]"
        )

    def _ready(self) -> None:
        if self.version in ("0.5.15", "0.5.23"):
            self.all(
                "Capture target decode CUDA graph end. bs=[1, 2, 4, 8, 16, 32, 64, 128, 256], elapsed=9.10 s, mem usage=1.40 GB, avail mem=12.40 GB."
            )
        else:
            self.all("Capture cuda graph end. Time elapsed: 9.10 s. mem usage=1.40 GB. avail mem=12.40 GB.")
        self.say(
            "max_total_num_tokens=210432, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=2048, context_len=131072, available_gpu_mem=12.40 GB",
            0,
        )
        self.say("INFO:     Application startup complete.")
        self.say("INFO:     Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)")
        self.say("The server is fired up and ready to roll!")

    def _serving(self) -> None:
        for n in range(1, 4):
            self.say(
                f"Prefill batch, #new-seq: {n}, #new-token: {512 * n}, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0, ",
                0,
            )
            self.say(
                f"Decode batch, #running-req: {n}, #token: {600 * n}, token usage: 0.01, cuda graph: True, gen throughput (token/s): {91.5 * n:.2f}, #queue-req: 0, ",
                0,
            )

    def fails(self, rank: int, frames: tuple[tuple[str, int, str], ...], error: str, source: str = "") -> Log:
        """A rank's scheduler dies of ``error``."""
        self.say("Scheduler hit an exception: Traceback (most recent call last):", rank)
        for path, line, function in frames:
            where = path if path.startswith("/") else f"/usr/lib/python3.12/dist-packages/sglang/srt/{path}"
            self.raw(f'  File "{where}", line {line}, in {function}\n    {source or "step()"}')
        self.raw(error + "\n")
        return self

    def chain(self, frames: tuple[tuple[str, int, str], ...], error: str) -> Log:
        """A second exception on top of the last."""
        self.raw(
            "\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):"
        )
        for path, line, function in frames:
            self.raw(
                f'  File "/usr/lib/python3.12/dist-packages/sglang/srt/{path}", line {line}, in {function}\n    step()'
            )
        self.raw(error + "\n")
        return self

    def cascade(self, culprit: int) -> Log:
        """What the other ranks print when ``culprit`` is gone, and the end."""
        errors = (
            "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, remote process exited or there was a network error, NCCL version 2.27.5",
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:33012",
            "torch.distributed.DistNetworkError: TCPStore: recvValue failed on SocketImpl(fd=97): Connection reset by peer",
            "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
        )
        for rank in range(self.tp):
            if rank != culprit:
                self.fails(
                    rank,
                    (SCHEDULER, ("distributed/parallel_state.py", 501, "all_reduce")),
                    errors[rank % len(errors)],
                )
        return self.end()

    def end(self) -> Log:
        """The launcher's own last words."""
        self.say("Received sigquit from a child process. It usually means the child failed.")
        self.raw("Killed")
        return self


OOM = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU {gpu} has a total capacity of 94.97 GiB of which {free} is free. "
       "Including non-PyTorch memory, this process has {own} memory in use. Of the allocated memory {own} is allocated by PyTorch, with 24.00 MiB allocated in private pools (e.g., CUDA Graphs), and 61.44 MiB is reserved by PyTorch but unallocated.")  # fmt: skip
HINTS = "Possible solutions:\n1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n2. set --cuda-graph-max-bs to a smaller value (e.g., 16)\n3. disable torch compile by not using --enable-torch-compile\n4. disable CUDA graph by --disable-cuda-graph. (Not recommended. Huge performance loss)\nOpen an issue on GitHub https://github.com/sgl-project/sglang/issues/new/choose "


def oom(tried: str, free: str, own: str, gpu: int = 0) -> str:
    """Torch's message with these figures."""
    return OOM.format(tried=tried, free=free, own=own, gpu=gpu)


def captured(text: str) -> str:
    """What SGLang makes of any error while it captures."""
    return f"Exception: Capture cuda graph failed: {text}\n{HINTS}"


def logs() -> dict[str, Log]:
    """Every written log by name; ``<cause>-<word>``."""
    kernels = ("layers/attention/flashinfer_backend.py", 300, "forward_decode")
    written: dict[str, Log] = {}

    def add(name: str, log: Log) -> None:
        written[name] = log

    add(
        "kv_budget_exhausted-0.5.5-tp8",
        Log("0.5.5", 8)
        .until("weights", 0.5)
        .fails(
            5,
            (*INIT, ("model_executor/model_runner.py", 1626, "init_memory_pool")),
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: self.server_args.mem_fraction_static=0.5",
        )
        .cascade(5),
    )
    add(
        "kv_budget_exhausted-0.5.23-tp8",
        Log("0.5.23", 8)
        .until("weights", 0.55)
        .fails(
            3,
            (*INIT, ("mem_cache/kv_cache_configurator.py", 3050, "_profile_available_bytes")),
            "RuntimeError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.55. Raise --mem-fraction-static above 0.583 (minimum viable = 1 - available/pre = 0.5725). If using speculative decoding, draft weights are now counted.",
        )
        .cascade(3),
    )
    negative = Log("0.5.9", 2).until("weights", 0.5)
    negative.all("max_total_tokens=131072 is larger than the profiled value -55705. Use the profiled value instead.")
    add(
        "kv_budget_exhausted-profiled",
        negative.fails(
            1,
            (*INIT, ("model_executor/model_runner_kv_cache_mixin.py", 416, "init_memory_pool")),
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: self.server_args.mem_fraction_static=0.5",
        ).end(),
    )

    begin = Log("0.5.9", 8).until("dist")
    begin.all("Load weight begin. avail mem=93.80 GB")
    add(
        "weights_oom-create",
        begin.fails(
            6,
            (*LOAD, ("layers/quantization/unquant.py", 92, "create_weights")),
            oom("896.00 MiB", "410.12 MiB", "94.10 GiB", 6),
        ).cascade(6),
    )
    draft = Log("0.5.5", 1, arguments={"speculative_algorithm": "EAGLE3"}).until("pool")
    draft.say("Load weight begin. avail mem=13.90 GB", 0)
    add(
        "weights_oom-draft",
        draft.fails(
            0,
            (SCHEDULER, ("speculative/eagle_worker.py", 120, "__init__"), *LOAD[1:]),
            oom("15.20 GiB", "13.90 GiB", "80.91 GiB"),
        ).end(),
    )

    add(
        "graph_capture_oom-0.5.9-tp8",
        Log("0.5.9", 8)
        .until("graphs", 0.9)
        .fails(2, CAPTURE, oom("1.20 GiB", "410.00 MiB", "94.20 GiB", 2))
        .chain(CAPTURE, captured(oom("1.20 GiB", "410.00 MiB", "94.20 GiB", 2).split(": ", 1)[1]))
        .cascade(2),
    )
    add(
        "graph_capture_oom-0.5.23",
        Log("0.5.23")
        .until("graphs", 0.9)
        .fails(
            0,
            (
                *INIT,
                ("model_executor/model_runner_components/cuda_graph_setup.py", 705, "capture_decode_graph"),
                ("model_executor/runner/decode_cuda_graph_runner.py", 900, "__init__"),
            ),
            captured(
                "CUDA out of memory. Tried to allocate 148.00 MiB. GPU 0 has a total capacity of 94.97 GiB of which 90.81 MiB is free."
            ).replace("--cuda-graph-max-bs", "--cuda-graph-max-bs-decode"),
        )
        .end(),
    )
    add(
        "graph_capture_oom-tvm",
        Log("0.5.23")
        .until("graphs", 0.9)
        .fails(
            0,
            CAPTURE,
            captured("InternalError: Check failed: (e == cudaSuccess) is false: CUDA error: out of memory"),
        )
        .end(),
    )

    add(
        "runtime_oom-prefill",
        Log("0.5.9", 4)
        .until("serving")
        .fails(3, (*SERVE, ("models/qwen3.py", 120, "forward")), oom("2.96 GiB", "1.81 GiB", "92.10 GiB", 3))
        .cascade(3),
    )
    add(
        "runtime_oom-logits",
        Log("0.5.5")
        .until("serving")
        .fails(
            0,
            (*SERVE, ("layers/logits_processor.py", 500, "_get_logits")),
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.25 GiB",
        )
        .end(),
    )

    add(
        "gpu_memory_held-unbalanced-0.5.5",
        Log("0.5.5", 8)
        .until("start")
        .fails(
            4,
            DIST,
            "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. min_per_gpu_memory=40.2509765625, local_gpu_memory=93.970703125, local_gpu_memory * 0.9=84.5736328125",
        )
        .cascade(4),
    )
    held = Log("0.5.9", 2).until("dist")
    held.all("Load weight begin. avail mem=20.10 GB")
    add(
        "gpu_memory_held-foreign",
        held.fails(
            1,
            (*LOAD, ("layers/linear.py", 90, "create_weights")),
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB. GPU 1 has a total capacity of 94.97 GiB of which 310.12 MiB is free. Process 4242 has 73.50 GiB memory in use. Including non-PyTorch memory, this process has 21.10 GiB memory in use. Of the allocated memory 19.90 GiB is allocated by PyTorch, and 12.10 MiB is reserved by PyTorch but unallocated.",
        ).end(),
    )

    add(
        "nccl_error-init",
        Log("0.5.9", 4)
        .until("start")
        .fails(
            2,
            (*DIST, ("distributed/device_communicators/pynccl.py", 110, "__init__")),
            "RuntimeError: NCCL error: internal error - please report this issue to the NCCL developers",
        )
        .end(),
    )
    add(
        "nccl_error-backend",
        Log("0.5.23", 4)
        .until("dist")
        .fails(
            1,
            (*DIST, ("distributed/parallel_state.py", 400, "barrier")),
            "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.5\nncclUnhandledCudaError: Call to CUDA function failed.",
        )
        .end(),
    )

    hang = Log("0.5.9", 8).until("start")
    hang.all("Init torch distributed begin.")
    hang.say("sglang is using nccl==2.27.5", 0)
    hang.raw("KeyboardInterrupt")
    add("p2p_iommu_hang-interrupted", hang)
    fault = Log("0.5.23", 2).until("start")
    fault.all("Init parallel begin.")
    fault.raw(
        "kernel: AMD-Vi: Event logged [IO_PAGE_FAULT device=81:00.0 domain=0x0022 address=0x3f0000000 flags=0x0030]"
    )
    add("p2p_iommu_hang-page-fault", fault)

    add(
        "peer_access_unsupported-0.5.5",
        Log("0.5.5", 4)
        .until("pool")
        .fails(
            3,
            (*CAPTURE, ("distributed/device_communicators/custom_all_reduce.py", 180, "__init__")),
            "RuntimeError: CUDA error: peer access is not supported between these two devices\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.",
        )
        .cascade(3),
    )
    add(
        "peer_access_unsupported-nccl",
        Log("0.5.9", 2)
        .until("start")
        .fails(
            1,
            DIST,
            "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, unhandled cuda error, NCCL version 2.27.5\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 217 'peer access is not supported between these two devices'",
        )
        .end(),
    )

    car = "RuntimeError: Failed: Cuda error /sgl-kernel/csrc/allreduce/custom_all_reduce.cuh:464 'invalid argument'"
    add(
        "custom_allreduce_failure-0.5.5-tp8",
        Log("0.5.5", 8)
        .until("graphs")
        .fails(
            7,
            (
                *CAPTURE,
                ("distributed/device_communicators/custom_all_reduce.py", 307, "register_graph_buffers"),
            ),
            car,
        )
        .chain(
            CAPTURE,
            captured("Failed: Cuda error /sgl-kernel/csrc/allreduce/custom_all_reduce.cuh:464 'invalid argument'"),
        )
        .cascade(7),
    )
    add(
        "custom_allreduce_failure-v2",
        Log("0.5.15", 4)
        .until("graphs")
        .fails(
            0,
            (
                *CAPTURE,
                ("distributed/device_communicators/custom_all_reduce_v2.py", 115, "share_graph_inputs"),
            ),
            "RuntimeError: Runtime check failed at /opt/sgl_kernel/distributed/custom_all_reduce.cuh:37: CUDA error: invalid argument",
        )
        .chain(CAPTURE, captured(""))
        .end(),
    )

    add(
        "kernel_arch_unsupported-no-image",
        Log("0.5.9", 8)
        .until("graphs")
        .fails(
            6,
            (*CAPTURE, kernels),
            "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
        )
        .chain(CAPTURE, captured("CUDA error: no kernel image is available for execution on the device"))
        .cascade(6),
    )
    add(
        "kernel_arch_unsupported-flashinfer",
        Log("0.5.23")
        .until("graphs")
        .fails(0, CAPTURE, captured("No supported CUDA architectures found for major versions [9, 10]."))
        .end(),
    )
    add("kernel_arch_unsupported-arguments", Log("0.5.5").until("start"))
    written["kernel_arch_unsupported-arguments"].raw(
        'Traceback (most recent call last):\n  File "/usr/lib/python3.12/dist-packages/sglang/srt/server_args.py", line 1221, in _handle_attention_backend_compatibility\n    raise ValueError(\nValueError: TRTLLM MLA backend is only supported on Blackwell GPUs (SM100). Please use a different backend.'
    )

    add(
        "kernel_resource_limit-triton",
        Log("0.5.9", 8)
        .until("graphs")
        .fails(
            1,
            CAPTURE,
            captured(
                "out of resource: shared memory, Required: 147456, Hardware limit: 101376. Reducing block sizes or `num_stages` may help."
            ),
        )
        .cascade(1),
    )
    add(
        "kernel_resource_limit-serving",
        Log("0.5.23")
        .until("serving")
        .fails(
            0,
            (*SERVE, kernels),
            "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131200, Hardware limit: 101376. Reducing block sizes or `num_stages` may help.",
        )
        .end(),
    )

    add(
        "jit_compile_failure-ninja",
        Log("0.5.9", 2)
        .until("graphs")
        .fails(
            1,
            (*CAPTURE, ("/usr/lib/python3.12/dist-packages/flashinfer/jit/cpp_ext.py", 230, "run_ninja")),
            "RuntimeError: Ninja build failed. Ninja output:\nninja: Entering directory `/root/.cache/flashinfer`\nFAILED: batch_decode.cuda.o\nnvcc fatal   : Unsupported gpu architecture 'compute_120a'\nninja: build stopped: subcommand failed.",
        )
        .end(),
    )
    add(
        "jit_compile_failure-ptxas",
        Log("0.5.5")
        .until("graphs")
        .fails(
            0,
            CAPTURE,
            captured(
                "Internal Triton PTX codegen error:\nptxas fatal   : Value 'sm_120' is not defined for option 'gpu-name'"
            ),
        )
        .end(),
    )
    add(
        "jit_compile_failure-no-ninja",
        Log("0.5.23", 8)
        .until("graphs")
        .fails(4, CAPTURE, "FileNotFoundError: [Errno 2] No such file or directory: 'ninja'")
        .cascade(4),
    )

    critical = Log("0.5.9")
    critical.raw(
        "Traceback (most recent call last):\n  File \"/usr/lib/python3.12/dist-packages/sgl_kernel/__init__.py\", line 5, in <module>\n    common_ops = _load_architecture_specific_ops()\nImportError:\n[sgl_kernel] CRITICAL: Could not load any common_ops library!\n\nAttempted locations:\n1. Architecture-specific pattern: sgl_kernel/sm100/common_ops.* - found files: ['common_ops.abi3.so']\n3. Standard Python import: common_ops - failed\n\nGPU Info:\n- Compute capability: 120\n- Expected variant: SM120 (precise math for compatibility)\n\nError details from previous import attempts:\n- ImportError: libnvrtc.so.12: cannot open shared object file: No such file or directory\n- ModuleNotFoundError: No module named 'common_ops'"
    )
    add("cuda_toolchain_mismatch-common-ops", critical)
    symbol = Log("0.5.23")
    symbol.raw(
        critical.lines[0]
        + "\n"
        + "\n".join(critical.lines[1:]).replace(
            "libnvrtc.so.12: cannot open shared object file: No such file or directory",
            "common_ops.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEab",
        )
    )
    add("cuda_toolchain_mismatch-symbol", symbol)
    add(
        "cuda_toolchain_mismatch-driver",
        Log("0.5.9", 2)
        .until("start")
        .fails(
            1,
            DIST,
            "RuntimeError: The NVIDIA driver on your system is too old (found version 12040). Please update your GPU driver",
        )
        .end(),
    )

    add(
        "illegal_memory_access-serving",
        Log("0.5.9", 8)
        .until("serving")
        .fails(
            5,
            (*SERVE, kernels),
            "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.",
        )
        .cascade(5),
    )
    add(
        "illegal_memory_access-in-allreduce-file",
        Log("0.5.5", 4)
        .until("graphs")
        .fails(
            2,
            CAPTURE,
            captured(
                "Failed: Cuda error /sgl-kernel/csrc/allreduce/custom_all_reduce.cuh:455 'an illegal memory access was encountered'"
            ),
        )
        .cascade(2),
    )

    busy = Log("0.5.5").until("ready")
    busy.lines = busy.lines[:-2]
    busy.say(
        "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): address already in use"
    )
    add("port_in_use-http", busy)
    add(
        "port_in_use-store",
        Log("0.5.23", 2)
        .until("start")
        .fails(
            0,
            DIST,
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 30101, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
        )
        .end(),
    )

    shm = "node:77:912 [3] misc/shmutils.cc:129 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-AbCdEf (size 33030528), error: No space left on device (28)"
    nccl = "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.5"
    small = Log("0.5.9", 8).until("start")
    small.raw(shm)
    add("shm_too_small-nccl", small.fails(3, DIST, nccl).cascade(3))
    add(
        "shm_too_small-last-error",
        Log("0.5.23", 4)
        .until("start")
        .fails(
            2,
            DIST,
            nccl
            + "\nLast error:\nError while creating shared memory segment /dev/shm/nccl-Zz (size 9637888), error: No space left on device (28)",
        )
        .end(),
    )

    killed = Log("0.5.9", 8).until("dist")
    killed.all("Load weight begin. avail mem=93.80 GB")
    killed.say("Rank 0 scheduler is dead. Please check if there are relevant logs.")
    killed.say("Exit code: -9")
    add("host_oom_killed-loading", killed)
    kernel = Log("0.5.23", 2).until("dist")
    kernel.all("Load weight begin. avail mem=93.80 GB")
    kernel.raw(
        "kernel: Memory cgroup out of memory: Killed process 4242 (sglang::schedul) total-vm:912345678kB, anon-rss:251234567kB"
    )
    add("host_oom_killed-cgroup", kernel)

    add("device_fault-xid", Log("0.5.9", 8).until("serving"))
    written["device_fault-xid"].raw("kernel: NVRM: Xid (PCI:0000:41:00): 79, pid=1234, GPU has fallen off the bus.")
    written["device_fault-xid"].fails(6, SERVE, "torch.AcceleratorError: CUDA error: unknown error").cascade(6)
    add(
        "device_fault-ecc",
        Log("0.5.23")
        .until("serving")
        .fails(0, SERVE, "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered")
        .end(),
    )

    add(
        "fabric_or_symm_mem-802",
        Log("0.5.9", 8)
        .until("start")
        .fails(
            0,
            DIST,
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 802: system not yet initialized",
        )
        .end(),
    )
    add(
        "fabric_or_symm_mem-multicast",
        Log("0.5.23", 8)
        .until("start")
        .fails(
            4,
            (*DIST, ("distributed/device_communicators/torch_symm_mem.py", 90, "__init__")),
            "RuntimeError: CUDA driver error: invalid device ordinal in cuMulticastCreate failed for the symmetric memory rendezvous".replace(
                "invalid device ordinal in ", ""
            ),
        )
        .cascade(4),
    )

    missing = Log("0.5.5")
    missing.raw(
        "Traceback (most recent call last):\n  File \"/usr/lib/python3.12/dist-packages/sglang/launch_server.py\", line 6, in <module>\n    from x import y\nImportError: cannot import name 'is_torchdynamo_compiling' from 'transformers.utils'"
    )
    add("dependency_mismatch-import", missing)
    old = Log("0.5.9")
    old.raw(
        'Traceback (most recent call last):\n  File "/usr/lib/python3.12/dist-packages/sglang/srt/utils/common.py", line 1000, in assert_pkg_version\n    raise Exception(\nException: flashinfer_python is installed with version 0.5.0, which is less than the minimum required version 0.6.3. Please reinstall the latest version by following the instructions'
    )
    add("dependency_mismatch-version", old)

    proxy = Log("0.5.5").until("ready")
    proxy.lines.pop()
    proxy.say("Initialization failed. warmup error: Traceback (most recent call last):")
    proxy.raw(
        '  File "/usr/lib/python3.12/dist-packages/sglang/srt/entrypoints/http_server.py", line 1480, in _execute_server_warmup\n    assert res.status_code == 200, f"{res=}, {res.text=}"\nAssertionError: res=<Response [503]>, res.text=\'proxy error\''
    )
    add("warmup_or_proxy-status", proxy)
    slow = Log("0.5.23").until("ready")
    slow.lines.pop()
    slow.say("Initialization failed. warmup error: Traceback (most recent call last):")
    slow.raw(
        "  File \"/usr/lib/python3.12/dist-packages/sglang/srt/entrypoints/http_server.py\", line 2500, in _execute_server_warmup\n    res = requests.post(\nrequests.exceptions.ReadTimeout: HTTPConnectionPool(host='127.0.0.1', port=30000): Read timed out. (read timeout=600)"
    )
    add("warmup_or_proxy-timeout", slow)

    add(
        "too_few_gpus-0.5.9",
        Log("0.5.9", 8)
        .until("start")
        .fails(
            4,
            DIST,
            "torch.AcceleratorError: CUDA error: invalid device ordinal\nGPU device may be out of range, do you have enough GPUs?",
        )
        .cascade(4),
    )
    add(
        "too_few_gpus-none",
        Log("0.5.5").until("start").fails(0, DIST, "RuntimeError: No CUDA GPUs are available").end(),
    )

    stuck = Log("0.5.9", 8).until("serving")
    stuck.say("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)", 3)
    add("watchdog_hang-scheduler", stuck.end())
    collective = Log("0.5.23", 8).until("serving")
    collective.raw(
        "[rank2]:[E301 12:00:00.123456789 ProcessGroupNCCL.cpp:683] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=71, OpType=ALLREDUCE, NumelIn=7168, NumelOut=7168, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\nterminate called after throwing an instance of 'c10::DistBackendError'"
    )
    add("watchdog_hang-collective", collective.end())

    add(
        "parallel_shape_assert-heads",
        Log("0.5.5", 8)
        .until("dist")
        .fails(
            3,
            (*LOAD, ("models/qwen2.py", 130, "__init__")),
            "AssertionError",
            "assert self.total_num_heads % tp_size == 0",
        )
        .cascade(3),
    )
    add(
        "parallel_shape_assert-block",
        Log("0.5.23", 8)
        .until("dist")
        .fails(
            7,
            (*LOAD, ("layers/quantization/fp8.py", 606, "create_weights")),
            "ValueError: Weight output_partition_size = 192 is not divisible by weight quantization block_n = 128.",
        )
        .cascade(7),
    )
    add("quant_mismatch-argument", Log("0.5.9"))
    written["quant_mismatch-argument"].raw(
        'Traceback (most recent call last):\n  File "/usr/lib/python3.12/dist-packages/sglang/srt/configs/model_config.py", line 600, in _verify_quantization\n    raise ValueError(\nValueError: Quantization method specified in the model config (awq) does not match the quantization method specified in the `quantization` argument (gptq).'
    )
    add(
        "quant_mismatch-keys",
        Log("0.5.5", 2)
        .until("dist")
        .fails(
            1,
            (*LOAD, ("models/deepseek_v2.py", 3200, "load_weights")),
            "KeyError: 'model.layers.3.mlp.experts.w2_weight_scale'",
        )
        .end(),
    )
    add(
        "spec_draft_mismatch-hook",
        Log("0.5.9", 1, arguments={"speculative_algorithm": "EAGLE3"})
        .until("weights")
        .fails(
            0,
            (*INIT, ("speculative/eagle_worker.py", 150, "__init__")),
            "AttributeError: 'Glm4ForCausalLM' object has no attribute 'set_eagle3_layers_to_capture'",
        )
        .end(),
    )
    add(
        "spec_draft_mismatch-shape",
        Log("0.5.23", 4, arguments={"speculative_algorithm": "EAGLE3"})
        .until("pool")
        .fails(
            2,
            (*CAPTURE, ("models/llama_eagle3.py", 190, "forward")),
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x21504 and 12288x4096)",
        )
        .cascade(2),
    )
    add(
        "model_unsupported-architecture",
        Log("0.5.5", 4)
        .until("dist")
        .fails(
            2,
            (*LOAD, ("models/registry.py", 62, "_raise_for_unsupported")),
            "ValueError: Model architectures ['NewForCausalLM'] are not supported for now. Supported architectures: dict_keys(['LlamaForCausalLM'])",
        )
        .cascade(2),
    )
    add("model_unsupported-config", Log("0.5.9"))
    written["model_unsupported-config"].raw(
        'Traceback (most recent call last):\n  File "/usr/lib/python3.12/dist-packages/transformers/models/auto/configuration_auto.py", line 1360, in from_pretrained\n    raise ValueError(\nValueError: The checkpoint you are trying to load has model type `new_model` but Transformers does not recognize this architecture. This could be because of an issue with the checkpoint, or because your version of Transformers is out of date.'
    )
    add("model_not_found-hub", Log("0.5.5"))
    written["model_not_found-hub"].raw(
        'Traceback (most recent call last):\n  File "/usr/lib/python3.12/dist-packages/huggingface_hub/utils/_http.py", line 409, in hf_raise_for_status\n    response.raise_for_status()\nrequests.exceptions.HTTPError: 404 Client Error: Not Found for url: https://huggingface.co/no/such/resolve/main/config.json'
    )
    add("model_not_found-gated", Log("0.5.9"))
    written["model_not_found-gated"].raw(
        'Traceback (most recent call last):\n  File "/usr/lib/python3.12/dist-packages/transformers/utils/hub.py", line 480, in cached_files\n    raise OSError(\nOSError: You are trying to access a gated repo.\nMake sure to have access to it at https://huggingface.co/meta-llama/x.'
    )
    add("bad_flag-argparse", Log("0.5.9"))
    written["bad_flag-argparse"].raw(
        "usage: launch_server.py [-h] --model-path MODEL_PATH\nlaunch_server.py: error: argument --attention-backend: invalid choice: 'flash' (choose from 'triton', 'flashinfer')"
    )
    add("bad_flag-exclusive", Log("0.5.5"))
    written["bad_flag-exclusive"].raw(
        'Traceback (most recent call last):\n  File "/usr/lib/python3.12/dist-packages/sglang/srt/server_args.py", line 1749, in _handle_cache_compatibility\n    raise ValueError(\nValueError: The arguments enable-hierarchical-cache and disable-radix-cache are mutually exclusive and cannot be used at the same time. Please use only one of them.'
    )
    add(
        "engine_bug-attribute",
        Log("0.5.9", 2)
        .until("serving")
        .fails(
            1,
            (*SERVE, ("managers/schedule_batch.py", 900, "merge_batch")),
            "AttributeError: 'NoneType' object has no attribute 'merge_batch'",
        )
        .end(),
    )
    twice = Log("0.5.5", 2, arguments={"speculative_algorithm": "EAGLE"}).until("pool")
    twice.all("Init torch distributed begin.")
    add(
        "engine_bug-unbalanced-draft",
        twice.fails(
            1,
            (SCHEDULER, ("speculative/eagle_worker.py", 120, "__init__"), *DIST[1:]),
            "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. min_per_gpu_memory=13.01171875, local_gpu_memory=15.970703125, local_gpu_memory * 0.9=14.3736328125",
        ).end(),
    )
    add(
        "unknown-exception",
        Log("0.5.9")
        .until("weights")
        .fails(
            0,
            (*INIT, ("model_executor/model_runner.py", 700, "initialize")),
            "RuntimeError: something nobody has seen before",
        )
        .end(),
    )

    frightening = Log("0.5.9", 8).until("start")
    frightening.all(
        "Setup Custom allreduce failed with peer access is not supported between these two devices. To silence this warning, specify --disable-custom-all-reduce explicitly."
    )
    frightening.all(
        "Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs. To silence this warning, specify disable_custom_all_reduce=True explicitly."
    )
    frightening.all(
        "The memory capacity is unbalanced. Some GPUs may be occupied by other processes. min_per_gpu_memory=80.2, local_gpu_memory=93.9, local_gpu_memory * 0.9=84.5"
    )
    frightening.raw(
        'node:7:7 [0] NCCL WARN Missing "iommu=pt" from kernel command line which can lead to system instablity or hang!'
    )
    frightening.say(
        "Ignore import error when loading sglang.srt.models.x: libcudart.so.12: cannot open shared object file: No such file or directory",
        0,
    )
    frightening.say("Ignore import error when loading sglang.srt.models.y: No module named 'vllm'", 3)
    frightening.say(
        "Failed to load flashinfer comm, falling back: no kernel image is available for execution on the device",
        2,
    )
    frightening.raw(
        "/usr/lib/python3.12/site-packages/torch/cuda/__init__.py:61: FutureWarning: The pynvml package is deprecated.\nException ignored in: <function _StorageBase.__del__ at 0x7f>\nTraceback (most recent call last):\n  File \"/usr/lib/x.py\", line 1, in __del__\n    f()\nAttributeError: 'NoneType' object has no attribute 'f'"
    )
    for step in ("_dist", "_weights", "_pool", "_graphs", "_ready", "_serving"):
        getattr(frightening, step)()
    frightening.say(
        "KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_token_ratio: 0.4110 -> 0.7400", 0
    )
    frightening.raw(
        'ERROR:    Exception in ASGI application\nTraceback (most recent call last):\n  File "/usr/lib/python3.12/dist-packages/sglang/srt/entrypoints/openai/serving_chat.py", line 1, in handle\n    raise ValueError("x")\nValueError: The input (200000 tokens) is longer than the model\'s context length (131072 tokens).'
    )
    add("none-frightening", frightening)
    soft = Log("0.5.23", 2).until("serving")
    soft.say("DetokenizerManager watchdog timeout (self.watchdog_timeout=300, self.soft=True)")
    soft.say("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
    soft.say("Subprocess scheduler_0 (pid=77) crashed with exit code -15. Triggering SIGQUIT for cleanup...")
    soft.say("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
    soft.raw("Killed")
    add("none-soft-watchdog-and-stop", soft)
    for version in ("0.5.5", "0.5.9", "0.5.15", "0.5.23"):
        add(f"none-plain-{version}", Log(version, 8).until("serving"))
    add("unknown-cut-in-weights", Log("0.5.9", 8).until("weights"))
    return written


def main() -> None:
    """Write them all."""
    OUT.mkdir(parents=True, exist_ok=True)
    for name, log in logs().items():
        (OUT / f"{name}.log").write_text("\n".join(log.lines) + "\n")


if __name__ == "__main__":
    main()
