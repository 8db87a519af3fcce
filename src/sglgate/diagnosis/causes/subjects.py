"""What a report is about, as the very last resort: a few words of each cause, with weights.

They are counted in what a person wrote, in frames and in lines of errors (``sglgate.diagnosis.subject``); no single
word of them decides.
"""

# A pattern that is broken over lines cannot be searched for.
# ruff: noqa: E501, S108
from __future__ import annotations

from typing import Final

# The first must be there. The weight of each word: 3 hardly stands in a report of anything else, 1 stands in many.
# fmt: off
SUBJECTS: Final[dict[str, tuple[tuple[float, str], ...]]] = {
    "weights_oom": ((2, r"\bOOM\b|out of memory|OutOfMemory"), (2, r"load_model|create_weights|\bloading (?:the )?(?:model|weights|checkpoint)|checkpoint shards")),
    "graph_capture_oom": ((2, r"\bOOM\b|out of memory|OutOfMemory"), (2, r"graph capture|captur\w+ (?:the )?(?:cuda )?graphs?|capture_\w+|init_(?:cuda|device)_graphs?|cuda.?graph")),
    "runtime_oom": ((2, r"\bOOM\b|out of memory|OutOfMemory"), (2, r"bench_serving|\bconcurren\w+|\brequests?\b|\bprompts?\b|event_loop|forward_batch|under load|long context|prefill"), (1, r"\bserving\b|inference|after \d+ (?:min|hour|step)")),
    "kv_budget_exhausted": ((2, r"[Nn]ot enough memory|no memory (?:left )?for"), (1.5, r"mem[-_]fraction[-_]static"), (1.5, r"\bKV ?(?:cache|pool)\b|init_memory_pool|profile_max_num_token|max_total_num_tokens")),
    "gpu_memory_held": ((2, r"unbalanced|zombie|orphan\w*|left ?over|not (?:released|freed)"), (1.5, r"other process|previous (?:run|server)|nvidia-smi")),
    "shm_too_small": ((3, r"/dev/shm|--shm-size|shared memory segment"), (1, r"\bBus error|SIGBUS|--ipc")),
    "host_oom_killed": ((2, r"OOM[- ]?kill\w*|\bKilled\b|SIGKILL|exit ?code:? -9|\b137\b"), (2, r"(?:host|system|CPU) (?:memory|RAM)|\bcgroup|\bRSS\b|\bmmap|\bswap\b")),
    "nccl_error": ((2.5, r"\b[NRH]CCL\b|nccl\w+|ProcessGroup(?:NCCL|HCCL)"), (1.5, r"multi[- ]?node|\b(?:two|2|four|4) nodes|--nnodes|node[-_]rank|dist[-_]init[-_]addr"), (1.5, r"SOCKET_IFNAME|RoCE|InfiniBand|\bIB\b|\bgloo\b|init_process_group|rendezvous|TCPStore")),
    "p2p_iommu_hang": ((3, r"\bIOMMU\b|\bACS\b|NCCL_P2P_(?:DISABLE|LEVEL)"), (1.5, r"\bP2P\b|peer[- ]to[- ]peer"), (1, r"\bhang\w*|\bstuck\b|PCIe")),
    "peer_access_unsupported": ((3, r"peer access|cudaErrorPeerAccess"), (1.5, r"CUDA IPC|cuda_ipc|IpcOpen")),
    "custom_allreduce_failure": ((3, r"custom[-_ ]?all[-_ ]?reduce|CustomAll[rR]educe|quick_?all_?reduce"), (1.5, r"ipc_?handles?|register_graph_buffers|expandable_segments|cudaIpc")),
    "fabric_or_symm_mem": ((3, r"symm(?:etric)?[-_ ]?mem\w*|NVLS|MNNVL|[mM]ulticast|[fF]abric ?[mM]anager|IMEX|nvshmem|NVSHMEM|IBGDA"), (2, r"allreduce[-_ ]fusion|all-reduce fusion|flashinfer_comm_fusion"), (2, r"\b[Mm]ooncake|NIXL|nixl|\bRDMA\b|\bMoRI\b|[tT]ransfer ?[eE]ngine|\bDeepEP\b|deep_ep"), (1, r"NVL72|GB200|NVLink|NVSwitch")),
    "device_fault": ((3, r"\bXid\b|fallen off the bus|GPU is lost|\bECC\b|GSP"), (1.5, r"reboot|reset the (?:card|GPU)|power.?cycle|nvidia-bug-report|dmesg")),
    "too_few_gpus": ((2.5, r"device ordinal|set_device|CUDA_VISIBLE_DEVICES|gpu_id"), (1.5, r"\bonly \d+ (?:GPUs?|cards?|devices)|number of (?:GPUs|devices)|base[-_]gpu[-_]id")),
    "watchdog_hang": ((3, r"[Ww]atchdog"), (2, r"\bhangs?\b|\bhung\b|\bhanging\b|\bstuck\b|\bdead ?lock\w*|never returns?|no progress|freez\w+|frozen"), (1.5, r"py-?spy|100% (?:GPU )?util|health ?check|time[d]? ?out|unresponsive|no response|stops? responding")),
    "kernel_arch_unsupported": ((2, r"\b[sS][mM][_ ]?\d{2,3}[af]?\b|gfx\d\w+|compute capability"), (1.5, r"\b(?:RTX ?(?:PRO ?)?\d{4}|[2345]090|GB10|DGX Spark|Jetson|Orin|Thor|V100|T4|2080|3090|A100|L20|L40S?|MI\d{2}\w*|Blackwell|Hopper|Ampere|Turing|Volta)\b"), (1.5, r"not (?:yet )?support\w*|unsupported|only support\w*|no support|not (?:compiled|built) for|unavailable on"), (1, r"\bFA3\b|\bfa[34]\b|\bTMA\b|tcgen05|wgmma|MXFP4|NVFP4|fp8e4nv|trtllm|marlin|cutlass|kernels?")),
    "kernel_resource_limit": ((3, r"[oO]ut ?[oO]f ?[rR]esources?|shared memory|\bsmem\b|num_stages|register spill"), (1, r"BLOCK_\w+|\bKiB|\b\d{5,6} bytes|autotun\w+|\btiles?\b")),
    "jit_compile_failure": ((2.5, r"\bnvcc\b|\bninja\b|ptxas|\bcicc\b|hipcc|nvrtc|cc1plus|cpp_extension|\.cuh\b|\bg\+\+|\bgcc\b"), (2, r"[cC]ompil(?:e|er|ation|ing)\b|\bJIT\b|jit_kernel|flashinfer/jit|_inductor|torch\.compile|_dynamo|make_cubin|CompilationError"), (1, r"CUDA_HOME|toolkit|headers?|template|\.triton|cache dir")),
    "cuda_toolchain_mismatch": ((3, r"undefined symbol|cannot open shared object|\blib(?:cuda|cudart|nvrtc|cublas\w*|cudnn|nccl|torch\w*|c10\w*)\.so|common_ops"), (1.5, r"\bdriver\b|\bcu1[123]\d\b|CUDA (?:Version )?1[123]\.\d|\bABI\b"), (1.5, r"sgl[-_]kernel|torch_npu|torchvision::nms|\bwheels?\b")),
    "illegal_memory_access": ((3, r"illegal (?:memory|instruction)|\bIMA\b|misaligned|device-side assert|[mM]emory access fault|compute-sanitizer"), (1.5, r"CUDA_LAUNCH_BLOCKING|out[- ]of[- ]bounds|[sS]eg(?:mentation )?fault|core ?dump"), (1, r"CUDA error|cudaError|AcceleratorError")),
    "bad_flag": ((2.5, r"unrecognized argument|invalid choice|mutually exclusive|cannot be (?:used|combined|enabled) (?:with|together)|not compatible with|incompatible with"), (2, r"server_args\.py|ServerArgs|__post_init__|check_server_args|_handle_\w+|argparse|arg_groups"), (1, r"`?--[a-z][a-z-]+`?|\bflags?\b|\boptions?\b|\barguments?\b")),
    "model_not_found": ((2.5, r"[hH]ugging ?[fF]ace(?:\.co|_hub| hub)|[mM]odel[sS]cope|\bHF_\w+|gated|offline|snapshot"), (1.5, r"download\w*|No such file|not found|does not exist|safetensors header")),
    "model_unsupported": ((2.5, r"model_type|AutoConfig|architectures?\b.*(?:support|recogni|regist)|not supported for now|For(?:CausalLM|ConditionalGeneration)|trust_remote_code"), (2, r"model_config\.py|configuration_\w+|hf_transformers\w*|[cC]onfig' object|rope_scaling|AutoTokenizer|AutoProcessor|processing_\w+"), (1.5, r"(?:not|n't|no) (?:yet )?support\w*|unsupported|unknown model|new model")),
    "parallel_shape_assert": ((3, r"divisib\w+"), (1.5, r"\b(?:tp|ep|dp|tensor parallel|expert parallel)[-_ ]?(?:size)?[ =]*\d+.{0,40}(?:fail|crash|error)|tp(?:_size)? ?> ?1|exceeds dimension size"), (1.5, r"\bshard\w*|partition\w*|num_(?:kv_)?heads|num_experts|narrow\b")),
    "quant_mismatch": ((2, r"\bquanti[sz]\w+|\bAWQ\b|\bGPTQ\b|awq|gptq|compressed[-_]tensors|modelopt|\bGGUF\b|bitsandbytes|[wW][48][aA]\d+|NVFP4|nvfp4|mxfp[48]|\bFP8\b|\bfp8\b|auto-?round|torchao"), (1.5, r"weight_loader|load_weights|process_weights_after_loading|create_weights|load(?:ing)? (?:the )?(?:weights|checkpoint)"), (1.5, r"weight_scale|\bscales?\b|qweight|dequant\w*|layers/quantization")),
    "spec_draft_mismatch": ((2, r"\bEAGLE-?[23]?\b|\beagle[23]?\b|\bdraft\b|\bMTP\b|NEXTN|nextn|DFLASH|speculative"), (1.5, r"mismatch|does not match|doesn't match|hidden_size|vocab|must match|draft[-_]model|aux_hidden|load_weights")),
    "port_in_use": ((3, r"[aA]ddress already in use|\bport\b.{0,40}(?:in use|occupied|taken|bound|conflict)|EADDRINUSE"), (1, r"\bbind\b|\bports?\b")),
    "dependency_mismatch": ((3, r"ImportError|ModuleNotFoundError|[nN]o module named|cannot import|circular import"), (1.5, r"\b(?:transformers|xgrammar|outlines|torchao|vllm|numpy|pydantic|flashinfer\w*|torchvision|torchcodec|protobuf|opentelemetry|deep_gemm|triton)\b.{0,30}\d+\.\d+"), (1.5, r"pip install|\bpinned\b|requirements|downgrad\w+|\buv\b|conda|\bversions?\b.{0,30}(?:conflict|mismatch|incompatib)|still calls|no longer (?:has|export)"), (1, r"<module>")),
    "warmup_or_proxy": ((3, r"[wW]arm-?up request|http_proxy|no_proxy|_execute_server_warmup|_wait_and_warmup|skip-server-warmup"), (1.5, r"\bwarm-?up\b|\bproxy\b|(?:get_)?model_info|/health\w*|\b50[234]\b")),
    "engine_bug": (
        (1.5, r"\b(?:Attribute|Type|Index|Key|Assertion|UnboundLocal|Name|Value|NotImplemented|ZeroDivision)Error\b|'NoneType'|\bassert\b|\bcrash\w*|\bbug\b|regression|garbage|gibberish|memory leak|race condition"),
        (2, r"regression|worked (?:in|on|with) v?0\.\d|(?:after|since) (?:the )?(?:upgrad|updat)\w+|bisect\w*|introduced (?:in|by)|#\d{4,6}\b|race condition|memory leak|\bPR\b"),
        (1.5, r"sglang/srt/(?:layers|models|speculative|mem_cache|constrained|lora|disaggregation|multimodal|sampling|function_call)/\S+"),
        (1, r"radix|hicache|HiCache|overlap schedul\w+|chunked[- ]prefill|disaggregat\w+|xgrammar|tool[- ]call\w*|reasoning[- ]parser|\bLoRA\b|\bmamba\b|\bSWA\b|hybrid|structured|json_schema|multimodal|\bimages?\b|streaming|\babort\w*|retract\w*"),
        (1.5, r"garbage|gibberish|wrong (?:output|result|answer)s?|accuracy|\bNaN\b|repeat\w* tokens|empty (?:output|response)|incorrect"),
        (1, r"shapes?\b|tensor a|dimension|dtype|contiguous|index \d+|out of range"),
    ),
}
# fmt: on
