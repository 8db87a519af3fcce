"""Last resorts by place: the type of an exception, its innermost frames, and the subject of a message nobody knows.

``*.place_*`` want the frames, ``*.bare_*`` are for exceptions that were pasted without any, ``*.cut_*`` for tracebacks
that were pasted without their exception, ``*.stands_*`` for dumps of a process that stands still. All are ``likely`` at most, and one of any other grade goes before.
"""

# A wording that is broken over lines cannot be searched for.
# ruff: noqa: E501
from __future__ import annotations

from functools import partial
from typing import Final

from sglgate.diagnosis.model import Grade, Phase, sig

_place = partial(sig, raised=True, grade=Grade.GUESS, confidence="likely")
_bare = partial(sig, raised=True, frames=r"^$", grade=Grade.GUESS, confidence="likely")
_cut = partial(sig, cut=True, grade=Grade.GUESS, confidence="likely")

_stands = partial(sig, stack=True, grade=Grade.GUESS, confidence="likely")

_EXPLICIT: Final = r"^(?:\w+\.)*(?:ValueError|AssertionError|NotImplementedError|RuntimeError|ArgumentTypeError|\w*Exception|\w*(?:Unsupported|Invalid|Config|Implement)\w*Error)\b"
_ANY: Final = r"^(?:\w+\.)*(?:ValueError|AssertionError|NotImplementedError|TypeError|RuntimeError|KeyError|AttributeError|IndexError|ArgumentTypeError|Exception)\b"
# What a process says of another one's end, a card of its memory, or a server of one request, is not told by the place.
_ELSEWHERE: Final = r"(?i)out of memory|\bOOM\b|cuda error|hip error|cudaError|hipError|CU(?:DA)?_?RESULT|acl error|nccl|rccl|hccl|gloo|TCPStore|\bdied\b|exit code|exited|process(?:es)?\b|connection|timed? ?out|capture (?:cuda )?graph failed|not enough|other ranks|bus error|error messages above|Initialization failed|new thread|too many open files|temporarily unavailable|disk quota|permission denied|^ValueError: The input \(|^ValueError:?(?: (?:T|Th|The|The i|The in|The inp|The inpu|The input))? ?$|longer than the model|exceeds the (?:model|maximum)|maximum context length"
_QUANTITIES: Final = r"(?i:quantiz|quant_|\bquant\b|\b[nm]?x?v?fp[48]\b|\bint[48]\b|\bawq|gptq|modelopt|compressed.tensors|\bgguf|bitsandbytes|weight_scale|marlin|\bw[48]a\d+\b|group_size|block.?scale)"
_REFUSES: Final = r"(?:not compatible|conflicts? with|not (?:yet )?(?:be )?support\w*|unsupported|does ?n[o']t support|only (?:be )?support\w*|only works|must (?:be|have|use|set|not)|must match|needs? (?:to|the|a)\b|please|requires?|require|required|invalid|unknown|cannot|can't|not allowed|not (?:yet )?implemented|incompatible|disabled?|should be|expected)"
_SETTINGS: Final = r"(?:backend|--[a-z]|layout|page[_ -]?size|cuda.?graph|piecewise|pipeline|\b(?:DP|CP|PP|TP|EP|DCP|PD|HIP|ROCm|NPU|CPU|XPU|MPS|HiCache|LoRA|MTP|radix|overlap)\b|attention|parallel|disaggregation|enable|SGLANG_\w+|cache|speculative|dtype|hicache|chunked|environment|load.?balance|\bmode\b|parser|grammar)"
_REFUSED_SETTING: Final = rf"(?i)\b{_REFUSES}.*{_SETTINGS}|{_SETTINGS}.*\b{_REFUSES}"
_OWN: Final = r"(?:^|[ /])(?:sglang/(?:srt|jit_kernel|kernels|utils|lang|multimodal_gen|eval|cli)/\S+|sglang/[\w.]+|\.\.\./\S+|sgl_kernel/\S+)"

# fmt: off
PLACES: Final = (
    _place("bad_flag.place_arguments", "Error", pattern=_ANY, frames=r"(?:server_args\.py|arg_groups/\S+|argparse\.py|cuda_graph_config\.py|server_args_config_parser\.py):\S+$", unless=r"(?i)divisible|draft|not found|No such file|compute capability|\bsm\d|model.?type|architecture"),
    _place("bad_flag.place_setting", "Error", "Exception", pattern=_REFUSED_SETTING, frames=r"sglang/srt/(?:layers/(?!quantization)|managers|mem_cache|model_executor|disaggregation|distributed|constrained|sampling|batch_overlap|eplb|hardware_backend|entrypoints|utils|parser|connector|model_loader)\S*:(?!forward|apply|run_batch|event_loop)\w+$", unless=_ELSEWHERE + r"|(?i:\bsm[_ ]?\d|capability|tensor|shape|\bdim|contiguous|int32|int64|float32|quantiz|request|input_ids|prompt|\bpool\b)|len\("),
    _place("model_unsupported.place_configuration", "Error", pattern=_ANY, frames=r"(?:sglang/srt/configs/\S+|hf_transformers\S*|transformers/(?!utils/hub)\S+|transformers_modules/\S+|tokenizers/\S+|tiktoken/\S+|sentencepiece/\S+):\S+$", unless=_ELSEWHERE),
    _place("model_unsupported.place_model", "Error", pattern=r"^(?:ValueError|AssertionError|NotImplementedError|RuntimeError)\b", frames=r"sglang/srt/(?:models/\S+:(?:__init__|load_weights|_load\w*|get_\w+|process_\w+|_?validate\w*|_?check\w*|_?normalize\w*|_?parse\w*|_?init\w*|_?resolve\w*|make_\w+|<module>)|multimodal/\S+:(?:__init__|get_\w+))$", phases=(Phase.START, Phase.CONFIG, Phase.WEIGHTS), unless=_ELSEWHERE),
    _place("model_unsupported.place_json", "JSONDecodeError", pattern=r"JSONDecodeError\b", frames=r"json/decoder\.py:\w+$", phases=(Phase.START, Phase.CONFIG), unless=_ELSEWHERE),
    _place("model_not_found.place_hub", "Error", pattern=r"^(?:\w+\.)*(?:OSError|FileNotFoundError|HTTPError|ConnectionError|HfHubHTTPError|EnvironmentError)\b", frames=r"(?:huggingface_hub|transformers/utils/hub|modelscope|weight_utils|model_loader)\S*:\S+$"),
    _place("model_not_found.place_loader", "Error", pattern=r"(?i)\b(?:not found|no such|does not exist|missing|cannot (?:find|read|open)|could ?n[o']t (?:find|read)|failed to (?:download|find|read|open)|no \S*(?:files?|weights?|shards?))\b", frames=r"sglang/srt/(?:model_loader|connector|configs/load_config)\S*:\S+$", unless=_ELSEWHERE + r"|(?i:module|scale|quantiz)"),
    _place("quant_mismatch.place_quantization", "Error", pattern=_ANY, frames=r"(?:layers/quantization/\S+:(?!forward\w*|apply\w*)\w+|:(?:get_quant_config|_get_quantization_config|_verify_quantization|_parse_quant\w*|_validate_quant\w*|_get_quant\w*))$", unless=_ELSEWHERE),
    _place("quant_mismatch.place_loader", "Error", pattern=_QUANTITIES, frames=r"sglang/srt/(?:model_loader|models|layers/(?:moe|linear|vocab))\S*:(?:\w*load\w*|__init__|create_weights|process_weights\w*|_?get_\w+|_?init\w*|_?validate\w*|_?check\w*|_?build\w*)$", unless=_ELSEWHERE + r"|(?i:divisible|\bsm[_ ]?\d|capability)"),
    _place("spec_draft_mismatch.place_settings", "Error", pattern=r"(?i)\b(?:draft|speculative|eagle3?|nextn|dflash|dspark|ngram|mtp|hot_token|target (?:model|hidden)|topk)\b.*\b(?:must|requires?|expect\w*|support\w*|invalid|missing|mismatch|match|need\w*|config\w*|only|cannot|positive|provide\w*)\b", frames=r"(?:sglang/srt/speculative|spec_utils|speculative_hook)\S*:(?:__init__|_?init\w*|_?parse\w*|_?validate\w*|_?check\w*|_?resolve\w*|create\w*|build\w*|from_\w+|load\w*|get_\w+)$", unless=_ELSEWHERE),
    _place("parallel_shape_assert.place_world", "Error", pattern=r"(?i)world.?size.*(?:!=|not equal|does not match|mismatch|is not|must)|(?:number of|num_)\w* ?(?:heads|experts|gpus)\b.*(?:smaller|less|greater|larger|must|at least)", frames=r"sglang/srt/(?:distributed|models|layers)/\S+:(?:__init__|_?init\w*|initialize\w*)$", unless=_ELSEWHERE),
    _place("dependency_mismatch.place_import", "ImportError", "ModuleNotFoundError", pattern=r"^(?:\w+\.)*(?:ImportError|ModuleNotFoundError)\b", unless=r"(?i)cuda|nvrtc|undefined symbol|shared object|common_ops"),
    _place("jit_compile_failure.place_compiler", "Error", pattern=_ANY, frames=r"(?:triton/(?:compiler|backends)|torch/_inductor|torch/_dynamo|torch/utils/cpp_extension|flashinfer/jit|deep_gemm/jit\w*|tilelang/(?:jit|engine|contrib)|tvm_ffi/cpp|jit_kernel/utils|aiter/jit/(?!utils/chip)|cutlass/cute/(?:export|compiler)|cutlass/base_dsl/(?:compiler|jit)\w*)\S*:\S+$", unless=_ELSEWHERE),
    _place("kernel_arch_unsupported.place_architecture", "Error", pattern=r"(?i)\b(?:gfx\d\w+|sm[_ ]?\d{2,3}[af]?|compute.?capability|gpu arch\w*|device arch\w*|architecture)\b", frames=r"(?:aiter|flashinfer|sgl_kernel|deep_gemm|flash_attn\w*|flash_mla|vllm|triton|tilelang|cutlass|sglang/(?:srt/layers|jit_kernel|kernels))/\S*:\S+$", unless=_ELSEWHERE),
    _place("kernel_resource_limit.place_kernel", "Error", pattern=r"(?i)\b(?:shared memory|smem|registers?)\b", frames=r"(?:aiter|flashinfer|sgl_kernel|deep_gemm|flash_attn\w*|triton|tilelang|cutlass|sglang/(?:srt/layers|jit_kernel|kernels))/\S*:\S+$", unless=_ELSEWHERE + r"|(?i:/dev/shm)"),
    _place("warmup_or_proxy.place_warmup", "Error", "Exception", pattern=r"^(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Timeout)\b", frames=r":_(?:execute_server_warmup|wait_and_warmup|run_server_warmup\w*|wait_until_http_ready)\b"),
    _place("nccl_error.place_groups", "Error", pattern=r"^(?:\w+\.)*(?:RuntimeError|ValueError|TimeoutError|DistStoreError|DistNetworkError)\b", frames=r"(?:torch/distributed/\S+|pynccl\w*\.py|parallel_state\.py):\S+$", phases=(Phase.DIST_INIT,), unless=r"(?i)out of memory|cuda error|divisible|address already|world.?size"),
    _place("fabric_or_symm_mem.place_transport", "Error", "Exception", pattern=r"(?i)\b(?:mooncake|nixl|mori|rdma|ib_?device|infiniband|transfer engine|memory region|register\w* memory|nvlink|mnnvl|multicast|nvshmem|fabric)\b.*(?:fail\w*|error|invalid|not found|unable|cannot|no valid)|(?:fail\w*|error|invalid|unable|no valid)\b.*(?:mooncake|nixl|mori|rdma|ib_?device|infiniband|transfer engine|memory region|nvlink|mnnvl|multicast|nvshmem|fabric)", frames=r"(?:mooncake|nixl|mori|device_communicators|flashinfer/comm|deep_ep|remote_instance)\S*:\S+$", remedy="the transport between the cards or nodes did not start: look at the RDMA devices that it is given, at their drivers, at the container's access to them, and at peer memory"),
    _place("engine_bug.place_own_code", "Error", pattern=r"^(?:\w+\.)*(?:ValueError|AssertionError|NotImplementedError)\b", frames=rf"{_OWN}:\S+$", unless=_ELSEWHERE),
    _place("engine_bug.place_own_exception", "Error", "Exception", pattern=r"^(?:\w+\.)*(?:RuntimeError|\w*Exception|InternalError|CantImplementError)\b", frames=r"(?:sglang/srt/(?:layers|models|speculative|lora|multimodal|constrained|sampling|batch_overlap|eplb|hardware_backend|function_call|parser|managers/(?!scheduler\.py|tp_worker|data_parallel|disagg)|model_executor/(?!model_runner\.py))\S+|sglang/(?:jit_kernel|kernels)/\S+):\S+$", unless=_ELSEWHERE + r"|(?i:\bplease\b|fail\w* to|unable|\bcuda (?:is|driver|version|toolkit|home))"),
    _place("engine_bug.place_library", "Error", pattern=r"^(?:\w+\.)*(?:RuntimeError|TypeError|AttributeError|IndexError|KeyError|ValueError|AssertionError|NotImplementedError|\w*(?:Unsupported|Implement|Config|Verification|DSLRuntime)Error)\b", frames=r"sglang/srt/\S+ (?:\S+ )*(?:torch/(?!distributed|_inductor|_dynamo|utils/cpp_extension|cuda/__init__|serialization)|flashinfer/(?!jit)|xgrammar/|outlines|triton/runtime|sgl_kernel/|deep_gemm/(?!jit)|aiter/(?!jit)|PIL/|numpy/|torchvision/|zmq/|msgspec/|fastapi/|pydantic/|einops/|multiprocessing/(?!connection)|asyncio/)\S*:\S+$", unless=_ELSEWHERE + r"|(?i:\bplease\b|\bcuda (?:is|driver|version|toolkit|home)|\bsm[_ ]?\d)"),
)

BARE: Final = (
    _bare("quant_mismatch.bare", "Error", "Exception", pattern=rf"{_EXPLICIT}.*{_QUANTITIES}", unless=_ELSEWHERE + r"|(?i:kv.?cache|divisible|lora|\bsm[_ ]?\d|capability)"),
    _bare("bad_flag.bare", "Error", "Exception", pattern=rf"{_EXPLICIT}.*(?:(?i:\b{_REFUSES}.*(?:--[a-z]|\bSGLANG_\w+|backend\b|server argument|option\b)|(?:--[a-z]|\bSGLANG_\w+|backend\b|server argument|option\b).*\b{_REFUSES}))", unless=_ELSEWHERE + r"|(?i:divisible|\bsm[_ ]?\d|capability|quantiz)"),
    _bare("parallel_shape_assert.bare", "Error", pattern=r"(?i)\bdivisible by\b", unless=_ELSEWHERE + r"|(?i:page|chunk|token|\bbatch|stride|align)"),
    _bare("model_unsupported.bare", "Error", "Exception", pattern=rf"{_EXPLICIT}.*(?i:\bmodel.?type\b|architectures?\b|\bconfig\.json|\bhf_config|\bconfig class|\bprocessor class|chat.?template|\brope\b|image processor|layer_types|num_hidden_layers)", unless=_ELSEWHERE + r"|(?i:divisible|\bgpu|\bsm[_ ]?\d|capability|cuda|gfx)"),
    _bare("engine_bug.bare", "Error", "Exception", pattern=r"^(?:\w+\.)*(?:ValueError|AssertionError|NotImplementedError|TypeError|KeyError|AttributeError|IndexError|UnboundLocalError|NameError|ZeroDivisionError|RecursionError|RuntimeError)\b(?!:? *$)", unless=_ELSEWHERE + r"|(?i:\bplease\b|fail\w* to (?!load lora)|unable|\bgpus?\b|\bcuda (?:is|driver|version|toolkit|home|unknown)|\bdriver (?:version|on)|not found|no such|does not exist|\bsm[_ ]?\d|capability|divisible)"),
    _bare("engine_bug.bare_assertion", "Error", "Exception", pattern=r"^AssertionError:? *$"),
    sig("engine_bug.logged_attribute", "object has no attribute '", pattern=r"(?:error|exception|failed)\b.*'(?!\w*Config')\w+' object has no attribute '\w+'", unless=r"(?i)^(?:\w+\.)*\w+Error\b", grade=Grade.GUESS, confidence="likely"),
)

_IMPORTING: Final = r"(?:<module>|_run_module_as_main|_run_code|run_module|import_module|_gcd_import|_find_and_load\w*|_handle_fromlist|_load_unlocked|exec_module|_call_with_frames_removed|__import__|_lazy_\w+|__getattr__|_get_module)"

# Most tracebacks that are cut tell only that something failed; these places tell what.
CUT: Final = (
    _cut("quant_mismatch.cut_quantization", frames=r"(?:layers/quantization/\S+:(?!forward|apply)\w+|:(?:get_quant_config|_get_quantization_config|_verify_quantization|_parse_quant\w*|get_quant_method))$"),
    _cut("model_unsupported.cut_configuration", frames=r"(?:model_config\.py:(?!_verify_quant)\w+|hf_transformers\S*:\w+|configuration_(?:auto|utils)\.py:\w+|(?:tokenization|processing|image_processing|processor)_\w+\.py:\w+|:get_(?:tokenizer|processor|config)|:_get_processor_wrapper)$"),
    _cut("bad_flag.cut_arguments", frames=r"(?:server_args\.py:(?:_handle\w*|_validate\w*|check_\w+)|arg_groups/\S+:\w+|argparse\.py:\w+)$"),
    _cut("jit_compile_failure.cut_compiler", frames=r"(?:triton/(?:compiler|backends)|torch/_inductor|torch/utils/cpp_extension|flashinfer/jit|deep_gemm/jit\w*|tilelang/(?:jit|engine|contrib)|tvm_ffi/cpp|jit_kernel/utils|aiter/jit/(?!utils/chip))\S*:\S+$"),
    _cut("custom_allreduce_failure.cut", frames=r"(?:custom_all_reduce\S*):\S+$"),
    _cut("nccl_error.cut_groups", frames=r"(?:pynccl\w*\.py|torch/distributed/distributed_c10d\.py):(?:__init__|ncclCommInitRank|init_process_group|_new_process_group_helper|new_group|barrier|all_reduce|all_gather\w*|broadcast\w*)$"),
    _cut("cuda_toolchain_mismatch.cut_import", frames=rf"^(?=.*\b(?:sgl_kernel|deep_gemm|flash_mla|torch/__init__|torch/_C|torch_npu/__init__|vllm/_C|deep_ep)\b\S*:{_IMPORTING}(?: \S+){{0,2}}$)(?:\S+:{_IMPORTING} )*\S+:{_IMPORTING}(?: \S+){{0,2}}$"),
    _cut("dependency_mismatch.cut_import", frames=rf"^(?:\S+:{_IMPORTING} )+\S+:<module>(?: \S+:(?!main\b|cli\b|launch\w*|run_server)\S+){{0,2}}$"),
    _cut("too_few_gpus.cut_set_device", frames=r"torch/cuda/__init__\.py:(?:set_device|_lazy_init)$"),
    _cut("parallel_shape_assert.cut_divide", frames=r":(?:divide|ensure_divisibility)$"),
    _cut("engine_bug.cut_bookkeeping", frames=r"sglang/srt/(?:constrained|function_call|parser|mem_cache/\S*(?:radix|tree|chunk)\w*\.py|managers/(?:schedule_policy|session\w*))\S*:\w+$"),
    _cut("engine_bug.cut_adapter", frames=r"(?:sglang/srt/lora/\S+:\w+|:init_lora_manager)$"),
)

# The first that matches tells: what is waited for before how it came there.
STANDS: Final = (
    _stands("fabric_or_symm_mem.stands_rendezvous", frames=r"symmetric_memory|symm_mem|trtllm_mnnvl|mnnvl|allreduce_fusion|flashinfer_comm_fusion|nvshmem|deep_ep\b|mooncake|nixl|multimem", remedy="all ranks wait for each other while memory that the cards share is set up: disable that feature (--enforce-disable-flashinfer-allreduce-fusion, --enable-symm-mem off, another --moe-a2a-backend), or look at the fabric manager and the links between the nodes"),
    _stands("custom_allreduce_failure.stands_handles", frames=r"custom_all_reduce\S*:\S+|:register_graph_buffers\b|:create_shared_buffer\b"),
    _stands("jit_compile_failure.stands_compiler", frames=r"cpp_extension\S*:\S+|ninja|flashinfer/jit|deep_gemm/jit|compile_deep_gemm|compile_utils\.py|triton/(?:compiler|backends)|_inductor/|tvm_ffi/cpp|tilelang/jit|aiter/jit|file_baton\.py|filelock|FileBaton", remedy="a kernel is being compiled, or a lock of an earlier compile is waited for: remove stale locks in the compile caches (~/.cache/torch_extensions, ~/.cache/flashinfer, ~/.triton), and compile beforehand"),
    _stands("nccl_error.stands_groups", frames=r"(?:pynccl\w*\.py:(?:__init__|ncclCommInitRank)|distributed_c10d\.py:(?:init_process_group|_new_process_group_helper|new_group|_store_based_barrier|split_group)|rendezvous\.py|parallel_state\.py:(?:init\w*|__init__)|:init_torch_distributed|:init_distributed_environment|:ncclCommInit\w*)\b", remedy="the ranks do not find each other: compare the addresses and interfaces of all nodes (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME), and start with NCCL_DEBUG=INFO"),
    _stands("watchdog_hang.stands_forward", frames=r":(?:replay|run_batch|forward_batch_\w+|_forward_raw|event_loop_\w+|resolve\w*|synchronize|process_batch_result\w*|forward\w*)\b"),
)
