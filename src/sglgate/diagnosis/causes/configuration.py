"""Causes in what was asked for: flags, model, shapes, packages, ports."""

# A wording that is broken over lines cannot be searched for.
# ruff: noqa: E501
from __future__ import annotations

from typing import Final

from sglgate.diagnosis.model import Cause, Grade, Phase, sig

_ARGS: Final = r"server_args\.py|arg_groups/|check_server_args|prepare_server_args|launch_server\.py:parse"

# models/registry.py drops a module that does not import with a warning, and then denies its architecture. These stand in
# every release from 0.5.5 to 0.5.23 (and stood in 0.4).
_KNOWN: Final = r"Model architectures (?P<architectures>\['(?:Llama|Mistral|Mixtral|Qwen2|Qwen2Moe|Gemma|Gemma2|DeepseekV2|DeepseekV3)ForCausalLM'\])"
_KNOWN_REMEDY: Final = (
    "every release has this architecture, so its module did not import: look above for `Ignore import error when loading` "
    "and install what that line misses; only then suspect the release"
)

# fmt: off
CAUSES: Final = (
    Cause(
        "bad_flag",
        "a server argument is unknown, invalid, or cannot be combined with another",
        "correct the argument that the message names (`python -m sglang.launch_server --help` of this version)",
        "",
        (
            sig("bad_flag.argparse", "error: ", "unrecognized arguments: -", pattern=r"(?:error: |(?=unrecognized arguments: -))(?:unrecognized arguments|argument |the following arguments are required|ambiguous option|expected (?:one|at least one) argument|one of the arguments)[^\n]*"),
            sig("bad_flag.context_length", "is greater than the derived context_length"),
            sig("bad_flag.trust_remote_code", "trust_remote_code=True", "--trust-remote-code", pattern=r"(?i)(?:contains custom code|requires you to execute|must be executed|set the option|please pass|allow custom code)", confidence="likely"),
            sig("bad_flag.unknown_value", "Unknown attention backend", "Unknown speculative algorithm", "Invalid attention backend", "Unknown load format", "Unknown load_format", "Unrecognized attention backend"),
            sig("bad_flag.raised_in_args", "Error", raised=True, pattern=r"^(?:\w+\.)*(?:ValueError|AssertionError|NotImplementedError|TypeError|RuntimeError|KeyError)\b", frames=_ARGS, unless=r"(?i)divisible|speculative|draft|No such file|huggingface|not found|compute capability|\bsm\d|model.?type|config", grade=Grade.SYMPTOM, confidence="likely"),
            sig("bad_flag.exclusive", "mutually exclusive", "cannot be used together", "Cannot enable both", "Cannot set both", "should be used together", confidence="likely"),
            sig("bad_flag.flag_in_error", "Error", raised=True, pattern=r"^(?:\w+\.)*(?:ValueError|AssertionError|RuntimeError|NotImplementedError)\b[^\n]*--[a-z][a-z-]+[^\n]*(?:not supported|not support|incompatible|must be|requires?|should be|cannot|only (?:works|supported)|please (?:use|set|remove|disable|specify))", unless=r"(?i)mem-fraction-static|trust-remote-code|divisible|speculative|quantization|not enough|port\b", grade=Grade.SYMPTOM, confidence="likely"),
            sig("bad_flag.page_size", "ivisible by page", raised=True, pattern=r"(?i)divisible by page.?size", confidence="likely"),
            sig("bad_flag.backend_refuses", "Error", raised=True, pattern=r"^(?:\w+\.)*(?:ValueError|AssertionError|NotImplementedError|RuntimeError)\b[^\n]*(?:attention.backend|kv.cache.dtype|page.size|moe.runner.backend|fp8.gemm)[^\n]*(?:not supported|not support|must be|requires?|only)", unless=r"(?i)sm[_ ]?\d|capability|speculative|EAGLE|draft", grade=Grade.SYMPTOM, confidence="likely"),
        ),
    ),
    Cause(
        "model_not_found",
        "the model's path or id is wrong, gated, incomplete or out of reach",
        "check the path or the id, the token for a gated model, and the network or HF_HUB_OFFLINE",
        "",
        (
            sig("model_not_found.identifier", "is not a valid model identifier", "is not a local folder", "Incorrect path_or_model_id", "Repo id must be", "HFValidationError"),
            sig("model_not_found.repository", "Repository Not Found", "RepositoryNotFoundError", "RevisionNotFoundError"),
            sig("model_not_found.entry", "EntryNotFoundError", "Entry Not Found", "404 Client Error", confidence="likely"),
            sig("model_not_found.gated", "GatedRepoError", "Cannot access gated repo", "access a gated repo", "is restricted and you are not in the authorized list", "401 Client Error"),
            sig("model_not_found.offline", "We couldn't connect to", "LocalEntryNotFoundError", "OfflineModeIsEnabled", "outgoing traffic has been disabled", "Cannot find the requested files in the disk cache"),
            sig("model_not_found.no_config", "does not appear to have a file named", pattern=r"a file named config\.json"),
            sig("model_not_found.no_file", "does not appear to have a file named", "does not appear to have files named", unless=r"a file named config\.json", confidence="likely"),
            sig("model_not_found.no_weights", "Cannot find any model weights with", "No model weights found", confidence="likely"),
            sig("model_not_found.path", "No such file or directory: ", "FileNotFoundError", pattern=r"No such file or directory: '[^']*(?:config\.json|model[\w.-]*\.safetensors|\.safetensors|tokenizer[\w.]*|\.gguf|\.bin)'", unless=r"quant", confidence="likely"),
            sig("model_not_found.missing_path", "does not exist", raised=True, pattern=r"(?i)(?:model|checkpoint|weights?|path|folder|directory)\b[^.]*\bdoes not exist", frames=r"sglang|transformers|huggingface", confidence="likely"),
            sig("model_not_found.incomplete", "SafetensorError", "safetensors_rust", "HeaderTooLarge", "MetadataIncompleteBuffer", "InvalidHeader", "incomplete metadata", pattern=r"(?i)deserializ|header|incomplete|metadata", confidence="likely", remedy="the weight files are incomplete or are pointers: download the model again and compare sizes"),
            sig("model_not_found.modelscope", "Error", "NotExist", raised=True, pattern=r"(?i)modelscope.*(?:not exist|not found)|NotExistError", confidence="likely"),
            sig("model_not_found.connection", "huggingface.co", "hf-mirror", pattern=r"(?i)(?:Max retries exceeded|NameResolutionError|ConnectTimeout|ConnectionError|Connection refused|unreachable)", confidence="likely"),
            sig("model_not_found.tokenizer", "Can't load tokenizer for", "Can't load the configuration of", "Can't load image processor for", "Can't load feature extractor for", confidence="likely"),
        ),
    ),
    Cause(
        "model_unsupported",
        "this build does not know the model's architecture, its configuration, or its transformers version",
        "use an SGLang (and a transformers) release that knows this model; compare `architectures` and `model_type` in its config.json",
        "",
        (
            sig("model_unsupported.architecture", "are not supported for now", pattern=r"Model architectures (?P<architectures>\[[^\]]*\])", unless=_KNOWN),
            sig("model_unsupported.known", "are not supported for now", pattern=_KNOWN, confidence="likely", remedy=_KNOWN_REMEDY),
            sig("model_unsupported.unsupported_list", "Unsupported architectures: "),
            sig("model_unsupported.processor", "No processor registered for architecture"),
            sig("model_unsupported.no_implementation", "no SGlang implementation", "no SGLang implementation", "has no sglang implementation", "is not compatible with SGLang"),
            sig("model_unsupported.model_type", "does not recognize this architecture"),
            sig("model_unsupported.unrecognized", "Unrecognized configuration class", "Unrecognized model in", "Unrecognized processing class", "should have a `model_type` key", "Unrecognized image processor", "Unrecognized feature extractor", confidence="likely"),
            sig("model_unsupported.config_key", "KeyError", pattern=r"^KeyError: '[\w-]+'$", frames=r"configuration_auto|auto_factory|AutoConfig|get_config|config\.py:from_pretrained", confidence="likely"),
            sig("model_unsupported.config_attribute", "has no attribute", pattern=r"'\w*Config' object has no attribute '(?P<attribute>\w+)'", unless=r"ServerArgs|ModelConfig'|LoadConfig|DeviceConfig", confidence="likely"),
            sig("model_unsupported.tokenizer_class", "does not exist or is not currently imported", confidence="likely"),
            sig("model_unsupported.rope", "rope_scaling", "RoPE scaling", "rope_type", "rope type", pattern=r"(?i)(?:Unknown|unsupported|invalid|must be|must have|missing|should (?:be|have)|KeyError)", unless=r"(?i)unrecognized keys|warn", confidence="likely"),
            sig("model_unsupported.json", "is not a valid JSON file", "JSONDecodeError", frames=r"config|transformers|hub", confidence="likely", remedy="the model's config.json is not valid JSON: download it again or repair it"),
            sig("model_unsupported.json_message", "It looks like the config file at", remedy="the model's config.json is not valid JSON: download it again or repair it", confidence="likely"),
            sig("model_unsupported.missing_parameter", "KeyError", pattern=r"^KeyError: '(?P<parameter>(?:model|lm_head|language_model|visual|transformer|backbone|mtp)[\w.]+)'", frames=r"load_weights", unless=r"scale|qweight|qzeros|g_idx|absmax|zero_point|packed|experts\.w(?:13|2)_weight|(\b\w+_)\1", grade=Grade.SYMPTOM, confidence="likely"),
            sig("model_unsupported.no_module", "There is no module or parameter named", grade=Grade.SYMPTOM, confidence="likely"),
            sig("model_unsupported.adapter", "lora", "LoRA", "LORA", raised=True, pattern=r"(?i)^(?:\w+\.)*(?:ValueError|KeyError|AssertionError|NotImplementedError|RuntimeError)\b.*\blora.*(?:cannot find|not supported|unsupported|does not support|missing)|(?:cannot find|unsupported|not support\w*|missing)\b.*\blora", grade=Grade.SYMPTOM, confidence="likely", remedy="this build cannot put these adapter weights on this model: leave the named modules out, merge the adapter, or use a newer release"),
            sig("model_unsupported.told_parameter", "KeyError", pattern=r"^KeyError: `?'(?P<parameter>(?:\w+\.){2,}(?:weight|bias))'", frames=r"^$", grade=Grade.WEAK, confidence="likely"),
            sig("model_unsupported.strict_config", "StrictDataclass", "Validation error for field", confidence="likely"),
        ),
    ),
    Cause(
        "parallel_shape_assert",
        "the tensor, expert or data parallel size does not divide heads, experts, or quantisation blocks",
        "choose a parallel size that divides the dimension in the message",
        "do not pad or reshape the checkpoint for it",
        (
            sig("parallel_shape_assert.block", "is not divisible by weight quantization block", pattern=r"= (?P<size>\d+) is not divisible by weight quantization (?P<block>block_\w) = (?P<block_size>\d+)"),
            sig("parallel_shape_assert.ensure", "is not divisible by", pattern=r"(?P<size>\d+) is not divisible by (?P<parts>\d+)", unless=r"(?i)page|chunk|interval|context_len"),
            sig("parallel_shape_assert.marlin", "min_thread_", "not divisible by", pattern=r"(?:partition|size)[^.]*not divisible by (?:min_thread|group_size|block|tile_)", confidence="likely"),
            sig("parallel_shape_assert.source", "assert ", "AssertionError", pattern=r"assert .*%\s*(?:self\.)?(?:\w*(?:tp|ep|dp|pp|cp)_?size|tensor_model_parallel\w*|\w*world_size|tp_degree|num_partitions|denominator|divisor)\b.*==\s*0"),
            sig("parallel_shape_assert.multiple", "assert ", pattern=r"assert .*(?:tp|ep|dp)_size\)?\s*%\s*[\w.()]*(?:kv_heads|heads|dp_size|ep_size|nnodes|num_nodes)[\w.()]*\s*==\s*0", confidence="likely"),
            sig("parallel_shape_assert.message", "divisible", pattern=r"(?i)(?:must|should|has to|needs to|can(?:not|'t)?) be (?:evenly )?divis\w+[^.]*(?:tp|ep|dp|tensor|parallel|expert|world|nodes|heads)|(?:heads|experts|hidden|intermediate|vocab|partition|output_size|input_size|tp_size|world_size)\b[^.]*(?:divisible|divide)", unless=r"(?i)page_size|chunked_prefill_size|max_running_requests", confidence="likely"),
            sig("parallel_shape_assert.quant_shape", "is not aligned with the quantized weight shape", confidence="likely"),
            sig("parallel_shape_assert.tp_too_large", "too large tensor parallel size", "tensor parallel size is too large"),
        ),
    ),
    Cause(
        "quant_mismatch",
        "the quantisation of the checkpoint does not fit the argument or the backend",
        "leave --quantization to the checkpoint, or choose the method and backend that read it",
        "",
        (
            sig("quant_mismatch.argument", "does not match the quantization method specified", "does not match the quantization argument"),
            sig("quant_mismatch.unknown", "Unknown quantization method", "Invalid quantization method"),
            sig("quant_mismatch.unsupported", "nsupported quantization", "Unknown quantization", unless=r"Unknown quantization method", confidence="likely"),
            sig("quant_mismatch.dtype", "is not supported for quantization method"),
            sig("quant_mismatch.config_file", "Cannot find the config file for", "Cannot find any of", pattern=r"config file for|quantiz|quant_config|hf_quant_config", confidence="likely"),
            sig("quant_mismatch.scheme", "No compressed-tensors compatible scheme was found", "compressed-tensors", pattern=r"(?i)no compressed-tensors|compressed-tensors.*(?:not supported|unsupported|invalid)", confidence="likely"),
            sig("quant_mismatch.parameter", "KeyError", pattern=r"\bKeyError: `?'[\w.]*(?:experts\.w(?:13|2)_weight'|scale|qweight|qzeros|g_idx|absmax|zero_point|weight_packed|quant_state)[\w.]*'?", confidence="likely"),
            sig("quant_mismatch.attribute", "has no attribute", pattern=r"has no attribute '(?:weight_scale\w*|qweight|w\d+_weight_scale\w*|input_scale|weight_packed|w13_weight\w*|w2_weight\w*)'", confidence="likely"),
            sig("quant_mismatch.loaded_shape", "assert param", "Attempted to load weight", "to load weights with shape", "to load weights of size", pattern=r"assert param\S*\.(?:shape|size\(\)).*loaded_weight|Attempted to load weight|to load weights (?:with shape|of size)", grade=Grade.SYMPTOM, confidence="likely"),
            sig("quant_mismatch.loader_frames", "Error", pattern=r"^(?:\w+\.)*(?:ValueError|AssertionError|NotImplementedError|KeyError|AttributeError|TypeError|RuntimeError)\b", frames=r"layers/quantization/[^\s:]+:(?!apply|forward)\w+(?: \S+){0,2}$", unless=r"(?i)divisible|out of memory|CUDA error|illegal|capability|\bsm[_ ]?\d|out of resource|No module|import", phases=(Phase.WEIGHTS, Phase.CONFIG, Phase.START), grade=Grade.SYMPTOM, confidence="likely"),
            sig("quant_mismatch.not_supported", "uantiz", pattern=r"(?i)^(?:\w+\.)*(?:ValueError|AssertionError|NotImplementedError|RuntimeError)\b.*quantiz\w*.*(?:not supported|unsupported|does not support|not support|mismatch|must be|expected)", unless=r"(?i)divisible|capability|\bsm[_ ]?\d", confidence="likely"),
        ),
    ),
    Cause(
        "spec_draft_mismatch",
        "the draft does not fit its target, or the speculative settings contradict each other",
        "use a draft made for this target (same hidden size, vocabulary and layer ids) and the settings it was made for",
        "",
        (
            sig("spec_draft_mismatch.hook", "has no attribute", pattern=r"has no attribute '(?:set_eagle3_layers_to_capture|get_embed_and_head|set_embed_and_head|set_embed|hot_token_id|set_dflash_layers_to_capture|load_lm_head_from_target|get_hot_token_id)'", confidence="likely"),
            sig("spec_draft_mismatch.arguments", "Error", raised=True, pattern=r"^(?:\w+\.)*(?:ValueError|AssertionError|NotImplementedError|RuntimeError|TypeError)\b.*(?:speculative|EAGLE|NEXTN|draft|NGRAM)", unless=r"(?i)out of memory|CUDA error|Capture cuda graph failed|illegal memory|Not enough memory|unexpected keyword", confidence="likely"),
            sig("spec_draft_mismatch.assert_source", "assert ", pattern=r"assert .*(?:speculative_|self\.topk|num_draft_tokens|draft_model|hot_token)", confidence="likely"),
            sig("spec_draft_mismatch.shape", "size mismatch", "shapes cannot be multiplied", "must match the size", "shape mismatch", "Attempted to load weight", "AssertionError", "doesn't match", "Sizes of tensors must match", frames=r"(?i)eagle3?\.py|nextn\.py|_mtp\.py|draft|speculative/(?!\S+:init_cuda_graph)", unless=r"(?i)out of memory|CUDA error", confidence="likely", phases=(Phase.WEIGHTS, Phase.CONFIG, Phase.KV_POOL, Phase.GRAPH_CAPTURE, Phase.START, Phase.SERVING)),
            sig("spec_draft_mismatch.draft_keys", "KeyError", pattern=r"^KeyError: '", frames=r"(?i)(?:eagle3?|nextn|_mtp)\.py:\w*load_weights", confidence="likely"),
            sig("spec_draft_mismatch.draft_only_names", "KeyError", pattern=r"\bKeyError: '(?:model\.)?(?:midlayer|hidden_norm|input_norm|fc|d2t|t2d)\b[\w.]*'", confidence="likely"),
            sig("spec_draft_mismatch.vocab", "Error", raised=True, pattern=r"(?i)(?:draft|target)[^.]*vocab\w*[^.]*(?:mismatch|differ|must match|not match|equal)", confidence="likely"),
        ),
    ),
    Cause(
        "port_in_use",
        "a port of the server (HTTP, distributed or auxiliary) is already bound",
        "choose another --port (and --dist-init-addr, --nccl-port), or end the server that still holds it",
        "",
        (
            sig("port_in_use.bind", "ddress already in use", "EADDRINUSE", "Port is already in use", unless=r"trying (?:port|another|next)"),
            sig("port_in_use.listen", "error while attempting to bind on address", "The server socket has failed to listen", "failed to bind to", confidence="likely"),
            sig("port_in_use.wait", " is not available", pattern=r"(?i)port\w* at (?P<port>\d+) is not available"),
            sig("port_in_use.named", "is already in use", pattern=r"(?i)port\D{0,40}(?P<port>\d+)\D{0,10} is already in use", unless=r"trying"),
        ),
    ),
    Cause(
        "dependency_mismatch",
        "Python packages do not fit each other (not CUDA)",
        "install the versions that this SGLang release pins, in a fresh environment",
        "",
        (
            sig("dependency_mismatch.import_name", "cannot import name", unless=r"sgl_kernel|flashinfer|deep_gemm|from 'sglang"),
            sig("dependency_mismatch.kernel_name", "cannot import name", pattern=r"sgl_kernel|flashinfer|deep_gemm|from 'sglang", confidence="likely"),
            sig("dependency_mismatch.no_module", "No module named", pattern=r"No module named '?(?P<module>[\w.]+)", unless=r"common_ops|'ninja'|libcuda"),
            sig("dependency_mismatch.version", "PackageNotFoundError", "VersionConflict", "DistributionNotFound", "No package metadata was found", "which is less than the minimum required version"),
            sig("dependency_mismatch.minimum_version", "minimum required version", unless=r"less than the minimum", confidence="likely"),
            sig("dependency_mismatch.requires", "Error", "Exception", raised=True, pattern=r"^(?:\w+\.)*(?:ImportError|Exception|RuntimeError|PackageNotFoundError|AssertionError)\b.*\b(?:[\w-]+(?:[<>=]=?[\d.]+)|install|pip)\b.* is required|is required .*but found", confidence="likely"),
            sig("dependency_mismatch.flashinfer", "Error", "flashinfer-", "does not match", pattern=r"(?i)flashinfer\S* version .*(?:does not match|mismatch)|version .*does not match .*flashinfer"),
            sig("dependency_mismatch.registered_twice", "is already used by a Transformers"),
            sig("dependency_mismatch.own_import", "Error", raised=True, pattern=r"^(?:\w+\.)*(?:ValueError|RuntimeError|TypeError|AttributeError|AssertionError|OSError)\b", frames=r"(?:transformers|tokenizers|torchvision|torchaudio|xgrammar|outlines|torchao|vllm|triton|flash_attn)/\S*:<module>(?: \S+){0,3}$", unless=r"CUDA|cuda|undefined symbol", grade=Grade.SYMPTOM, confidence="likely"),
            sig("dependency_mismatch.any_library", "cannot open shared object file", pattern=r"(?i)\bImportError: (?:\[[^\]]*\] )?(?P<library>lib[\w.+-]+\.so[\d.]*)", grade=Grade.SYMPTOM, confidence="likely"),
            sig("dependency_mismatch.numpy", "numpy.dtype size changed", "numpy.core.multiarray failed to import"),
            sig("dependency_mismatch.numpy_api", "_ARRAY_API not found", grade=Grade.WEAK, confidence="likely"),
            sig("dependency_mismatch.please_install", "lease install", "pip install", pattern=r"^(?:\w+\.)*(?:ImportError|ModuleNotFoundError|RuntimeError|ValueError|Exception|PackageNotFoundError)\b", unless=r"sgl[_-]kernel|CUDA|cuda", confidence="likely"),
            sig("dependency_mismatch.not_installed", "not installed", raised=True, pattern=r"^(?:\w+\.)*(?:ImportError|ModuleNotFoundError)\b.*\b(?:is|are|was) not installed", confidence="likely"),
            sig("dependency_mismatch.operator", "operator torchvision::nms does not exist", "partially initialized module", confidence="likely"),
            sig("dependency_mismatch.libc", "GLIBCXX_", "GLIBC_2", "CXXABI_", pattern=r"not found", confidence="likely"),
            sig("dependency_mismatch.system_library", "cannot open shared object file", pattern=r"lib(?:numa|GL|glib|gomp|ibverbs|sndfile|av\w+|gthread|X\w+|rdmacm|stdc\+\+|python\S*)[\w.-]*\.so", confidence="likely"),
            sig("dependency_mismatch.module_attribute", "has no attribute", pattern=r"^AttributeError: (?:module '|type object '|'function' object|partially init)", unless=r"sglang", grade=Grade.SYMPTOM, confidence="likely"),
            sig("dependency_mismatch.operator_namespace", "_OpNamespace", raised=True, pattern=r"'_OpNamespace' '(?P<namespace>\w+)' object has no attribute '(?P<operator>\w+)'", confidence="likely"),
            sig("dependency_mismatch.keyword", "got an unexpected keyword argument", "missing 1 required positional argument", frames=r"(?:flashinfer|transformers|sgl_kernel|xgrammar|outlines|torchao|triton|vllm|deep_gemm|flash_attn)", grade=Grade.SYMPTOM, confidence="likely"),
            sig("dependency_mismatch.keyword_text", "got an unexpected keyword argument", grade=Grade.WEAK, confidence="likely"),
            sig("dependency_mismatch.schema", "expected at most", "Expected a value of type", pattern=r"(?:sgl_kernel|torch\.ops|flashinfer)\S*\(\) expected at most|Expected a value of type", confidence="likely"),
        ),
    ),
    Cause(
        "warmup_or_proxy",
        "the server is up, but its own warm-up request fails (a proxy in between, or its time limit)",
        "exclude the server from the proxy (no_proxy=127.0.0.1,localhost,<host>), or raise the warm-up time limit, or --skip-server-warmup",
        "do not look for a GPU problem: the server answered nobody because nobody reached it",
        (
            sig("warmup_or_proxy.proxy", "ProxyError", "Unable to connect to proxy", "Cannot connect to proxy", unless=r"(?i)hugging ?face|hf-mirror|modelscope|pypi|github", confidence="likely"),
            sig("warmup_or_proxy.absolute_uri", '"GET http://', pattern=r'"GET http://\S+/(?:get_)?model_info HTTP/1\.\d" (?P<status>[45]\d\d)', confidence="likely"),
            sig("warmup_or_proxy.warmup", "Initialization failed. warmup error", grade=Grade.WEAK, confidence="likely"),
            sig("warmup_or_proxy.assert", "AssertionError", pattern=r"<Response \[(?P<status>\d+)\]>", confidence="likely", grade=Grade.WEAK),
            sig("warmup_or_proxy.read_timeout", "ReadTimeout", "Read timed out", frames=r"http_server|_execute_server_warmup|_wait_and_warmup", grade=Grade.WEAK, confidence="likely"),
        ),
    ),
    Cause(
        "engine_bug",
        "a defect of this SGLang version",
        "search SGLang's issues for the last line of the traceback, and try another release",
        "",
        (
            sig("engine_bug.leak", "memory leak detected", "pool leak detected", "pool memory leak", confidence="likely"),
            sig("engine_bug.unbalanced_draft", "The memory capacity is unbalanced", frames=r"eagle_worker|speculative/|draft_worker", raised=True, confidence="likely", remedy="the check compares free memory again when the draft starts, after the target's weights: update SGLang, or set SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK=0 where it is known"),
            sig("engine_bug.req_slots", "alloc_req_slots runs out of memory", confidence="likely"),
            sig("engine_bug.own_class", "has no attribute", pattern=r"AttributeError: '(?:ModelConfig|ServerArgs|ModelRunner|Scheduler|TpModelWorker|ForwardBatch|ScheduleBatch|TokenizerManager)' object has no attribute", grade=Grade.WEAK, confidence="likely"),
            sig("engine_bug.serving", "Error", raised=True, pattern=r"^(?:\w+\.)*(?:AssertionError|ValueError|RuntimeError|NotImplementedError|Exception)\b", unless=r"(?i)cuda|nccl|memory|gloo|TCPStore|connection|timed? ?out|deadline|lease", frames=r"sglang/", phases=(Phase.SERVING,), grade=Grade.WEAK, confidence="likely"),
            sig("engine_bug.python", "AttributeError", "TypeError", "UnboundLocalError", "NameError", "IndexError", "KeyError", "ZeroDivisionError", "RecursionError", pattern=r"^(?:\w+\.)*(?:AttributeError|TypeError|UnboundLocalError|NameError|IndexError|KeyError|ZeroDivisionError|RecursionError)\b", frames=r"sglang/\S+$", grade=Grade.WEAK, confidence="likely"),
            sig("engine_bug.tensor", "RuntimeError", pattern=r"^RuntimeError: (?:The size of tensor|The expanded size|shape '|mat1 and mat2|Sizes of tensors|Expected all tensors|expected scalar type|index \d+ is out of bounds|selected index|start \(|Boolean value|Tensors must have|expected m1)", frames=r"sglang/", grade=Grade.WEAK, confidence="likely"),
            sig("engine_bug.told_tensor", "shape mismatch: value tensor", "mat1 and mat2 shapes cannot", "must match the size of tensor", "Expected all tensors to be on the same device", frames=r"^$", grade=Grade.WEAK, confidence="likely"),
            sig("engine_bug.gathered_size", "output size times world size", "world_size times input tensor size", confidence="likely", grade=Grade.WEAK),
            sig("engine_bug.doubled_name", "KeyError", pattern=r"\bKeyError: `?'[\w.]*?(?<![a-z])(?P<word>[a-z]+_)(?P=word)[\w.]*'", confidence="likely", remedy="the loader maps this weight's name twice: update SGLang"),
            sig("engine_bug.told", "AttributeError", "TypeError", "UnboundLocalError", "NameError", "IndexError", "ZeroDivisionError", raised=True, pattern=r"^(?:\w+\.)*(?:AttributeError: '(?!\w*Config')\w+' object has no attribute|TypeError: '?\w+'? (?:object is not|is not)|UnboundLocalError|NameError|IndexError: list|ZeroDivisionError)", frames=r"^$", grade=Grade.WEAK, confidence="likely"),
        ),
    ),
)
