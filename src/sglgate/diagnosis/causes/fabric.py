"""Causes between cards: NCCL, peer access, custom all-reduce, the fabric; and the cards themselves."""

# A wording that is broken over lines cannot be searched for.
# ruff: noqa: E501
from __future__ import annotations

from typing import Final

from sglgate.diagnosis.model import Cause, Grade, sig

# fmt: off
CAUSES: Final = (
    Cause(
        "nccl_error",
        "NCCL failed and the log says nothing more precise",
        "start with NCCL_DEBUG=INFO and read the first WARN; look at every rank, for the first one to fail names the cause",
        "do not tune the rank that reports it: it is often the victim of another rank",
        (
            sig("nccl_error.socket", "no socket interface found", "No socket interface found", "No IP interface found", confidence="likely"),
            sig("nccl_error.ib", "ibv_", "Got completion from peer", "IB device", pattern=r"(?:ibv_\w+ failed|Call to ibv_\w+|Got completion from peer .* with status|no IB device)", confidence="likely", grade=Grade.WEAK),
            sig("nccl_error.error", "ncclUnhandledCudaError", "ncclInternalError", "ncclSystemError", "ncclInvalidUsage", "ncclInvalidArgument", "NCCL error", "NCCL Error", "nccl error", "DistBackendError", "unhandled system error", "unhandled cuda error", pattern=r"(?i)nccl|DistBackendError|unhandled", unless=r"terminate called after throwing|ncclRemoteError|remote process exited|TCPStore|peer access|Missing \"iommu|Watchdog caught collective|Failed to open lib|NET/Plugin|cannot open shared object", grade=Grade.WEAK, confidence="likely"),
            sig("nccl_error.mesh", "connectFullMesh failed", "Gloo connectFullMesh", grade=Grade.WEAK, confidence="likely", remedy="the nodes do not reach each other: set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME to the interface that they share, and look at firewalls and at what the host names resolve to"),
            sig("nccl_error.warn", "NCCL WARN", grade=Grade.HINT),
            sig("nccl_error.remote", "ncclRemoteError", "remote process exited", grade=Grade.CASCADE, confidence="likely"),
            sig("nccl_error.store", "TCPStore", pattern=r"(?i)TCPStore.*(?:timeout|timed out|connection|broken|closed|failed|recvValue|sendBytes)|recvValue failed|Failed to recv|wait timeout", grade=Grade.CASCADE, confidence="likely"),
            sig("nccl_error.gloo", "gloo", pattern=r"(?i)gloo.*(?:connection closed by peer|connection reset|timed out|connect)", grade=Grade.CASCADE, confidence="likely"),
            sig("nccl_error.other_ranks", "but there are other ranks that didn't finish loading", grade=Grade.CASCADE, confidence="likely"),
            sig("nccl_error.pipe", "Broken pipe", "Connection reset by peer", "EOFError", grade=Grade.CASCADE, confidence="likely"),
            sig("nccl_error.rendezvous", "clients joined", "The client socket has timed out after", "The client socket has failed to connect", pattern=r"\d+/\d+ clients joined|The client socket has (?:timed out after|failed to connect)", grade=Grade.WEAK, confidence="likely", remedy="not all nodes reached the store of the first one: compare --dist-init-addr, --nnodes and --node-rank of all of them, look at firewalls, and whether another node failed before"),
            sig("nccl_error.unreachable", "No route to host", "socketPollConnect", "socketStartConnect", "Network is unreachable", "Unable to find address for", "ifa != nullptr", "unsupported gloo device", pattern=r"NCCL|socket(?:Poll|Start)Connect|gloo|Unable to find address", grade=Grade.WEAK, confidence="likely", remedy="the nodes do not reach each other: set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME to the interface that they share, and look at firewalls and at what the host names resolve to"),
            sig("nccl_error.hccl", "HCCL function error", "hcclCommInitRootInfo", "HcclCommInit", "EI0006", "EI0002", "HCCL_E_", pattern=r"(?i)error|fail|time ?out|EI000\d", grade=Grade.SYMPTOM, confidence="likely", remedy="read the first error of the collective library's own log (plog) of every rank; look at the device ids, the rank table and the network interfaces"),
            sig("nccl_error.last_warning", "NCCL WARN", pattern=r"(?i)fail|error|time[d-]? ?out|\bres=[1-9]|invalid|unable|refused|unreachable", unless=r"(?i)plugin|iommu|\bP2P\b|ignor|DMA-?BUF|libnccl|optional|remote process|peer closed|Connection (?:closed|reset)", grade=Grade.GUESS, confidence="likely"),
        ),
    ),
    Cause(
        "p2p_iommu_hang",
        "peer-to-peer over PCIe hangs or corrupts (IOMMU, ACS, virtual machine)",
        "turn IOMMU and ACS off (or iommu=pt), or set NCCL_P2P_DISABLE=1; then reset the cards that stayed busy",
        "do not take `nvidia-smi topo -p2p` saying OK as proof: only a transfer of data proves it",
        (
            sig("p2p_iommu_hang.page_fault", "IO_PAGE_FAULT", "DMAR: DRHD: handling fault", "DMAR: [DMA", confidence="likely"),
            sig("p2p_iommu_hang.iommu_pt", 'Missing "iommu=pt"', "Missing iommu=pt", "iommu=pt", grade=Grade.HINT),
            sig("p2p_iommu_hang.corrupt", "P2P test failed", "P2P data mismatch", "p2p bandwidth", pattern=r"(?i)corrupt|mismatch|wrong data", confidence="likely"),
        ),
    ),
    Cause(
        "peer_access_unsupported",
        "there is no peer access or CUDA IPC between the cards, and a code path insists on it",
        "disable that path: --disable-custom-all-reduce, and NCCL_P2P_DISABLE=1 if NCCL is the one that insists",
        "do not force the peer-to-peer check",
        (
            sig("peer_access_unsupported.peer", "peer access is not support", "cudaErrorPeerAccessUnsupported", "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"),
            sig("peer_access_unsupported.resources", "peer mapping resources exhausted", "cudaErrorTooManyPeers"),
            sig("peer_access_unsupported.ipc", "Error", "CUDA IPC", "IpcGetMemHandle", "IpcOpenMemHandle", pattern=r"(?i)(?:cuda ?ipc|IpcGetMemHandle|IpcOpenMemHandle|ipc handle).*(?:not supported|unsupported|operation not permitted)", confidence="likely"),
            sig("peer_access_unsupported.pidfd", "pidfd_getfd", "pidfd_open", pattern=r"(?i)not permitted|not supported|fail|error|errno", confidence="likely"),
        ),
    ),
    Cause(
        "custom_allreduce_failure",
        "the custom all-reduce crashes or gets handles that it cannot use",
        "unset expandable_segments in PYTORCH_CUDA_ALLOC_CONF; if it still fails, start with --disable-custom-all-reduce",
        "do not follow the memory hints printed below a failed capture: they are printed for every error there",
        (
            sig("custom_allreduce_failure.invalid", "custom_all_reduce.cu", pattern=r"custom_all_reduce\.cuh?:\d+.*'?(?:invalid argument|invalid resource handle|invalid device (?:pointer|context)|unknown error|operation not supported)"),
            sig("custom_allreduce_failure.frames", "invalid argument", "invalid resource handle", "invalid device pointer", "CUDART error", frames=r"custom_all_reduce|cuda_wrapper|flashinfer/comm/(?:cuda_ipc|trtllm_ar)", confidence="certain"),
            sig("custom_allreduce_failure.runtime_wrapper", "CUDART error", pattern=r"CUDART error: (?:invalid|unknown|operation not)", grade=Grade.WEAK, confidence="likely"),
            sig("custom_allreduce_failure.source_line", "custom_all_reduce.cu", pattern=r"^\S*custom_all_reduce\.cuh?:\d+$", raised=True, grade=Grade.WEAK, confidence="likely"),
            sig("custom_allreduce_failure.handle", "cudaIpcOpenMemHandle", "cudaIpcGetMemHandle", "get_graph_buffer_ipc_meta", "register_graph_buffers", pattern=r"(?i)invalid|fail|error", unless=r"illegal memory|out of memory|^File |not supported", confidence="likely"),
            sig("custom_allreduce_failure.assert", "ustom_all_reduce", "ustomAllreduce", "ustom all-reduce", "ustom allreduce", pattern=r"(?i)(?:assert|error|exception)[^.]*(?:not registered|invalid|failed|unsupported|handle)|buffer.* is not registered", unless=r"illegal memory|out of memory|disabled|Setup Custom allreduce failed", confidence="likely"),
            sig("custom_allreduce_failure.expandable", "expandable_segments:True", pattern=r"CONF.{0,6}expandable_segments:True", unless=r"try setting|fragmentation", grade=Grade.HINT),
        ),
    ),
    Cause(
        "fabric_or_symm_mem",
        "the NVSwitch fabric, multicast or symmetric memory did not initialise",
        "disable that feature (--enable-symm-mem, --enable-torch-symm-mem, --enable-nccl-nvls, NCCL_NVLS_ENABLE=0, NCCL_CUMEM_ENABLE=0) "
        "or start the fabric manager that the NVSwitches need",
        "do not blame NCCL as such: without the feature it runs",
        (
            sig("fabric_or_symm_mem.not_ready", "system not yet initialized", "cudaErrorSystemNotReady", "CUDA_ERROR_SYSTEM_NOT_READY"),
            sig("fabric_or_symm_mem.multicast", "cuMulticast", "ulticast object", "ulticast bind", "ulticast ", pattern=r"(?i)cuMulticast\w+.*(?:fail|error|invalid|not supported)|multicast.*(?:fail|error|not supported|invalid)|(?:fail|error|invalid)\w*.*multicast", unless=r"(?i)communicator is not available|warning|disabl|fall", confidence="likely"),
            sig("fabric_or_symm_mem.symm", "SymmetricMemory", "symmetric memory", "Symmetric Memory", "symm_mem", "symm-mem", pattern=r"(?i)(?:SymmetricMemory|symmetric memory|symm.mem).*(?:fail|error|invalid|unable|not supported|unsupported|rendezvous)|(?:fail|error|invalid|unable)\w*[^.]*(?:SymmetricMemory|symmetric memory|symm_mem)", unless=r"(?i)is not available|warning|disabl|fall(?:ing|s)? ?back|^File |skipping", confidence="likely"),
            sig("fabric_or_symm_mem.frames", "RuntimeError", "CUDA error", "AssertionError", pattern=r"(?i)invalid|not supported|fail|error|handle", frames=r"symm_mem|symmetric_mem|pynccl_allocator|multimem", unless=r"out of memory|illegal memory", confidence="likely"),
            sig("fabric_or_symm_mem.nvls", "NVLS", "nvls", pattern=r"(?i)(?:WARN|fail|error).*nvls|nvls.*(?:fail|error)", unless=r"(?i)'\w+': (?:None|True|False)|nvls channels|NVLS_ENABLE|support is not available|not supported, falling", confidence="likely"),
            sig("fabric_or_symm_mem.fabric", "abric manager", "abric Manager", "fabricmanager", "IMEX", "TYPE_FABRIC", "fabric handle", pattern=r"(?i)fabric ?manager.*(?:not|fail|error)|(?:fail|error|invalid)\w*.*\bfabric\b|IMEX.*(?:fail|error|not)|CU_MEM_HANDLE_TYPE_FABRIC", unless=r"(?i)libfabric|fabric state|falling", confidence="likely"),
            sig("fabric_or_symm_mem.nvshmem", "nvshmem", "NVSHMEM", pattern=r"(?i)nvshmem.*(?:fail|error|abort|unable)", confidence="likely"),
            sig("fabric_or_symm_mem.window", "ncclCommWindowRegister", "ncclMemAlloc", pattern=r"(?i)fail|error|unhandled", confidence="likely"),
            sig("fabric_or_symm_mem.deep_ep", "DeepEP", "deep_ep.cpp", pattern=r"(?i)DeepEP\S*.*(?:cuda error|assert\w*|fail\w*)|deep_ep\.cpp", unless=r"(?i)time ?out|illegal|out of memory|no kernel image|unspecified launch|import|No module", grade=Grade.SYMPTOM, confidence="likely", remedy="the buffers that DeepEP shares between cards could not be set up: look at peer access between the cards, at NVSHMEM and IBGDA on this host, or take another --moe-a2a-backend"),
            sig("fabric_or_symm_mem.transport", "Transfer Engine initialization failed", "Failed to register memory", "register memory failed", "Failed to modify QP", "rdma_context.cpp", "rdma_endpoint.cpp", "rdma_transport.cpp", "UCX  ERROR", "NIXL_ERR_", "ibv_create_qp", pattern=r"(?i)fail\w*|error|unable|cannot", grade=Grade.GUESS, confidence="likely", remedy="the transport between the cards or nodes did not start: look at the RDMA devices that it is given, at their drivers, at the container's access to them, and at peer memory"),
        ),
    ),
    Cause(
        "device_fault",
        "the card fell off the bus or reported a hardware or driver fault",
        "read `dmesg` for Xid lines, reset or power-cycle the card, and have it checked if it comes back",
        "do not retry the launch on it: the card must be reset first",
        (
            sig("device_fault.xid", "Xid", pattern=r"NVRM: Xid [^,]*?: (?P<xid>(?!(?:13|31|43|45)\b)\d+)\b|\bXid (?:error )?(?P<xid_number>(?!(?:13|31|43|45)\b)\d+)\b"),
            sig("device_fault.bus", "fallen off the bus", "GPU is lost", "GPU has fallen"),
            sig("device_fault.handle", "Unable to determine the device handle for GPU", "No devices were found", confidence="likely"),
            sig("device_fault.ecc", "uncorrectable ECC error", "cudaErrorECCUncorrectable", "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable NVLink error"),
            sig("device_fault.hardware", "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error", "GSP RPC timeout", "GSP task", "GPU requires reset", "GPU is probably locked", "RmInitAdapter failed"),
            sig("device_fault.driver_line", "NVRM: GPU", "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable", "devices are busy or unavailable", confidence="likely"),
            sig("device_fault.unknown_error", "CUDA error: unknown error", "cudaErrorUnknown", "ERROR_UNKNOWN", grade=Grade.SYMPTOM, confidence="likely"),
            sig("device_fault.nvml", "NVMLError_GpuIsLost", "NVMLError_Unknown", "NVML_ERROR_GPU_IS_LOST"),
            sig("device_fault.hang", "HW Exception by GPU", "reason :GPU Hang", "GPU reset begin", "GPU Hang", confidence="likely"),
        ),
    ),
    Cause(
        "too_few_gpus",
        "there are fewer visible cards than ranks",
        "lower --tp-size (times --pp-size, --dp-size), or make more cards visible (CUDA_VISIBLE_DEVICES, --gpus, --base-gpu-id)",
        "do not reinstall CUDA: the cards that are visible work",
        (
            sig("too_few_gpus.ordinal", "invalid device ordinal", "cudaErrorInvalidDevice", "CUDA_ERROR_INVALID_DEVICE", pattern=r"invalid device ordinal|cudaErrorInvalidDevice\b|CUDA_ERROR_INVALID_DEVICE\b"),
            sig("too_few_gpus.none", "No CUDA GPUs are available", "no CUDA-capable device is detected", "cudaErrorNoDevice", "CUDA_ERROR_NO_DEVICE", confidence="likely"),
            sig("too_few_gpus.duplicate", "Duplicate GPU detected", confidence="likely"),
            sig("too_few_gpus.count", "Error", "Exception", raised=True, pattern=r"(?i)(?:not enough|insufficient|too few|fewer) (?:available |visible )?(?:gpus?|cuda devices|devices)\b|requires? \d+ gpus?,? but (?:only )?|only \d+ gpus? (?:is|are) (?:available|visible|found)|greater than the (?:number of )?(?:available )?(?:gpus|devices)|world.?size .*(?:exceeds?|larger than).*(?:gpus|devices)", confidence="likely"),
            sig("too_few_gpus.local", "invalid local rank", "Invalid device id", "device index out of range", confidence="likely"),
            sig("too_few_gpus.set_device", "Context: self.device=", pattern=r"self\.gpu_id=(?P<gpu_id>\d+)", grade=Grade.GUESS, confidence="likely"),
            sig("too_few_gpus.cluster", "Insufficient nvidia.com/gpu", "Insufficient amd.com/gpu", "Insufficient huawei.com", "Insufficient gpu.intel.com", confidence="likely", remedy="no node has as many free cards as the pod asks for"),
            sig("too_few_gpus.container", "nvidia-container-cli: device error", "unknown device: unknown", "No HIP GPUs are available", "No XPU devices are available", "no NPU device", confidence="likely"),
        ),
    ),
    Cause(
        "watchdog_hang",
        "a watchdog fired: a forward pass or a collective did not return in time",
        "collect the stacks of all ranks (py-spy dump), and look which rank is elsewhere; if kernels were still compiling, warm them up or raise --watchdog-timeout",
        "do not only raise the timeout: first see whether anything still moved",
        (
            sig("watchdog_hang.scheduler", "watchdog timeout (", "Watchdog timeout (", pattern=r"timeout \([^)]*\)", unless=r"soft=True", grade=Grade.SYMPTOM, confidence="likely"),
            sig("watchdog_hang.collective", "Watchdog caught collective operation timeout", "detected by watchdog at work", "Timeout at NCCL work", grade=Grade.WEAK, confidence="likely"),
            sig("watchdog_hang.heartbeat", "heartbeat monitor timed out", "HeartbeatMonitor", pattern=r"(?i)timed out|timeout|stuck|hang", confidence="likely", grade=Grade.WEAK),
            sig("watchdog_hang.detokenizer", "get a response from detokenizer for last", grade=Grade.WEAK, confidence="likely"),
            sig("watchdog_hang.barrier", "monitoredBarrier", pattern=r"(?i)failed to pass|timed out|timeout", grade=Grade.WEAK, confidence="likely"),
            sig("watchdog_hang.deep_ep", "DeepEP", "deep_ep", pattern=r"(?i)deep_?ep.*\btime ?out|\btime ?out\b.*deep_?ep", unless=r"(?i)num_max|warn", grade=Grade.SYMPTOM, confidence="likely", remedy="one rank did not take part in the exchange of tokens: look for the rank that failed or stands elsewhere, and at the links between the nodes"),
        ),
    ),
)
