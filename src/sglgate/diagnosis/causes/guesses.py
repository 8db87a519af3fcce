"""Last resorts, used where no wording of a failure is known: what a person tells.

They are looked for in the titles and sentences of a report only, never in what a program printed. All are ``likely``
at most, and one of any other grade goes before.
"""

# A wording that is broken over lines cannot be searched for.
# ruff: noqa: E501
from __future__ import annotations

from functools import partial
from typing import Final

from sglgate.diagnosis.model import Grade, sig

_told = partial(sig, told=True, grade=Grade.GUESS, confidence="likely")

_FAILS: Final = r"(?:fail\w*|crash\w*|errors?|broken?|breaks?|cannot|can't|unable|not|abort\w*|missing|mismatch\w*|wrong|stops?|dies|died|killed|raises?)"
_CARD: Final = r"(?:\bsm[_ ]?\d{2,3}[af]?\b|compute capability|\b(?:blackwell|hopper|ampere|turing|volta|GB10|DGX Spark|V100|T4|L20|L40S?|A100|A800|B200|B300|RTX ?(?:PRO )?\d{4}\w*|[2345]090|MI\d\w{2}\w*|gfx\d+\w*)\b)"
_KERNELS: Final = r"(?:kernels?|attention|flash\w*|MoE|FP4|FP8|MXFP\d|NVFP4|GEMM\w*|cutlass|marlin|triton|trtllm|fa[34]|backend|MLA|deep_?gemm|wheels?)"
_OOM: Final = r"(?:\bOOM(?:s|ed|ing)?\b|out[- ]of[- ]memory)"

# fmt: off
TOLD: Final = (
    _told("graph_capture_oom.told", pattern=rf"(?i){_OOM}.*\bgraph|\bgraph\w*\b.*(?:capture|memory).*{_OOM}"),
    _told("weights_oom.told", pattern=rf"(?i){_OOM}[^.]*\b(?:loading|load|load_weights?|weights?)\b|\b(?:loading|load|weights?)\b[^.]*{_OOM}", unless=r"(?i)graph|under load|lora|host|\bcpu\b|\bram\b"),
    _told("runtime_oom.told", pattern=rf"(?i){_OOM}[^.]*\b(?:serving|inference|prefill\w*|decod\w+|long (?:context|prompts?|inputs?|sequences?)|concurren\w+|requests?|benchmark\w*|runtime|images?|under load|after (?:some|a few|\d+|several))\b|\b(?:serving|inference|prefill\w*|decod\w+|long (?:context|prompts?|inputs?)|concurren\w+|requests?|benchmark\w*|under load)\b[^.]*{_OOM}", unless=r"(?i)graph|host|\bcpu\b|\bram\b|\bsystem memory|killer"),
    sig("runtime_oom.told_load", told=True, grade=Grade.HINT, confidence="likely", pattern=r"(?i)\b(?:bench_serving|benchmark\w*|send(?:ing)? (?:\w+ ){0,3}requests?|under (?:high |heavy )?load|concurren\w+|(?:during|while) (?:inference|serving|generat\w+|decod\w+))\b"),
    sig("weights_oom.told_anywhere", told=True, grade=Grade.HINT, confidence="likely", pattern=rf"(?i){_OOM}", unless=r"(?i)host|\bcpu\b|\bram\b|kill"),
    _told("host_oom_killed.told", pattern=r"(?i)\bOOM[- ]?kill|^killed (?:while|when|during)\b|(?:host|system|cpu) (?:memory|RAM)\b[^.]*(?:\bOOM\b|exhaust|run(?:s|ning)? out|leak|grow)"),
    _told("kernel_resource_limit.told", pattern=r"(?i)out ?of ?resources?|(?:exceed\w*|insufficient|too much|not enough|over(?:flow)?)[^.]*\bshared memory\b|\bshared memory\b[^.]*(?:exceed\w*|limit|overflow|insufficient)", unless=r"\bshm"),
    _told("jit_compile_failure.told", pattern=rf"(?i)\b(?:jit|ninja|nvcc|ptxas|nvrtc|torch\.compile|inductor)\b[^.]*\b(?:{_FAILS}|requires? \S+\.h\b)|\b(?:compilation|compile|build)\b \S*{_FAILS}|{_FAILS}\b[^.]*\b(?:to compile|compil(?:e|ing|ation))\b", unless=r"(?i)successfully|graph build"),
    _told("cuda_toolchain_mismatch.told", pattern=rf"(?i)undefined symbol|\blib(?:cuda|cudart|nvrtc|cublas\w*|cudnn|nccl|nvJitLink|torch\w*|c10\w*|nvshmem\w*)\.so[\d.]*[^.]*(?:{_FAILS}|found)|driver\b[^.]*\btoo old\b|\bABI\b[^.]*mismatch|common_ops[^.]*{_FAILS}|{_FAILS}[^.]*common_ops|\bCUDA[^.]*\bversion\b[^.]*mismatch"),
    _told("illegal_memory_access.told", pattern=r"(?i)illegal (?:memory|instruction|address)|misaligned address|memory access fault|device-side assert|(?:cuda|kernel|gather|scatter)[^.]*out of bounds|out of bounds[^.]*(?:cuda|kernel)|\bIMA\b"),
    _told("watchdog_hang.told", pattern=r"(?i)\bwatchdog\b[^.]{0,30}(?:time ?out|timed out|trigger|fire|kill)|(?:time ?out|trigger\w*)[^.]{0,30}\bwatchdog\b", unless=r"--watchdog-timeout \d"),
    _told("custom_allreduce_failure.told", pattern=rf"(?i)\bcustom[-_ ]?all[-_ ]?reduce\b[^.]*{_FAILS}|{_FAILS}\b[^.]*\bcustom[-_ ]?all[-_ ]?reduce\b", unless=r"(?i)--disable-custom-all-reduce|graph capture"),
    _told("nccl_error.told", pattern=r"(?i)\bNCCL\b[^.]*(?:\berrors?\b|\bfail\w*|\bcrash\w*|\btimed? ?out\b|\bhang\w*|\bstuck\b)|(?:\berrors?\b|\bfail\w*|\bhang\w*|\bstuck\b)[^.]*\bNCCL\b", unless=r"(?i)watchdog"),
    _told("bad_flag.told", pattern=r"(?i)unrecognized arguments?|invalid choice|no such option|ambiguous option|(?:un(?:known|recognized)|invalid) (?:argument|flag|option)[^.]*--|\bflags?\b[^.]*--[a-z-]+[^.]*(?:not (?:exist|recogni|support)|removed|conflict|incompatible)|--[a-z-]+[^.]*(?:incompatible with|conflicts? with|cannot be (?:used|combined) with|not compatible with)[^.]*--[a-z]"),
    _told("dependency_mismatch.told", pattern=r"(?i)\bplease install\b|\b(?:is|are|was) not installed\b|\bcannot import name\b|\bno module named\b|\b(?:fail\w*|unable) to import\b|\b(?:incorrect|broken|wrong|circular) imports?\b|\bimport ?errors?\b|\brequires? [\w.-]+ ?[<>=]=? ?\d|\b(?:triton_kernels?|transformers|xgrammar|torchao|flashinfer|numpy)\b[^.]*\bnot found\b|\b(?:transformers|xgrammar|outlines|torchao|vllm|flashinfer\w*|sgl[-_]kernel|numpy|pydantic|tokenizers|huggingface[-_]hub)\b[^.]*\b(?:\d+[.\d]*|versions?|pin)\b.*\b(?:incompatible|not compatible|breaks?|conflicts?|mismatch\w*|too (?:old|new)|required?)\b", unless=r"(?i)undefined symbol|\bcuda version"),
    _told("quant_mismatch.told", pattern=r"(?i)(?:KeyError|fail\w*|cannot|can't|unable|error\w*|crash\w*|mismatch\w*)\b.*\b(?:load\w*|checkpoint|weights?)\b.*\b(?:quantiz\w+|[nm]x?v?fp[48]|fp8|fp4|awq|gptq|modelopt|w4a\d+|w8a8|\w*scales?)\b|\b(?:quantiz\w+|[nm]x?v?fp[48]|fp8|fp4|awq|gptq|modelopt|w4a\d+|w8a8|\w*_scale)\b.*(?:fail\w*|cannot|can't|unable|error\w*|crash\w*)\b.*\b(?:to load|loading|load)\b|\bunsupported \w*(?:scale|quant)\w*", unless=r"(?i)\bOOM\b|out of memory|\bsm[_ ]?\d"),
    _told("kernel_arch_unsupported.told", pattern=rf"(?i){_CARD}.*\b{_KERNELS}\b.*\b(?:expected sm|only supports?|unsupported|not support\w*|no support|not (?:available|implemented|compiled)|missing|incompatible|NotImplementedError|fails?|failed|failure|crash\w*)\b|\b{_KERNELS}\b.*\b(?:expected sm|only|unsupported|not support\w*|not (?:available|implemented|compiled)|missing|incompatible|NotImplementedError|fails?|failed|failure|crash\w*)\b.*{_CARD}|{_CARD}.*\b(?:fails?|failed|failure|crash\w*)\b.*\b{_KERNELS}\b|\b(?:does not|doesn't|not) support\b[^.]*{_CARD}|\bunavailable\b[^.]*{_CARD}", unless=rf"(?i){_OOM}|\b(?:hangs?|stuck|accuracy|slow\w*|performance|garbage|undefined symbol)\b|(?:illegal|memory access)"),
    _told("model_unsupported.told", pattern=r"(?i)\b(?:model|architectures?|model_type|\w+ForC\w+|\w+ForConditionalGeneration)\b[^.]*\b(?:is|are) (?:not (?:yet )?supported|unsupported)\b|\b(?:unsupported|unknown|unrecognized) (?:model|architectures?|model_type)\b|\b(?:doesn'?t|does not|can(?:'t|not)) (?:support|recognize)\b[^.]*\b(?:models?|architectures?|variants?)\b"),
    _told("model_not_found.told", pattern=r"(?i)\b(?:model|checkpoint|repo\w*|weights?|config\.json)\b[^.]*\b(?:not found|does not exist|cannot be (?:found|downloaded))\b|(?:fail\w*|cannot|can't|unable) to (?:download|find) [^.]*\b(?:model|weights?|checkpoint|repo\w*)\b|\bgated (?:model|repo)"),
    _told("parallel_shape_assert.told", pattern=r"(?i)\bnot (?:evenly )?divisible\b|\bdivisible by (?:the )?(?:tp|tensor)", unless=r"(?i)page"),
    _told("port_in_use.told", pattern=r"(?i)\bport\b[^.]*\b(?:already (?:in use|used|bound|taken)|in use|occupied|conflict\w*)\b|\baddress already in use\b"),
    _told("warmup_or_proxy.told", pattern=rf"(?i)\bwarm-?up\b[^.]*\b(?:requests?|health|proxy|40\d|50\d|time ?out)\b[^.]*{_FAILS}|\bproxy\b[^.]*\bwarm-?up\b"),
    _told("device_fault.told", pattern=r"\bXid[ :]*\d+|(?i:\buncorrectable\b|fall(?:s|en|ing)? off the bus)"),
    _told("fabric_or_symm_mem.told", pattern=rf"(?i)\b(?:fabric ?manager|nvls|symm(?:etric)?[-_ ]mem\w*|multicast)\b[^.]*{_FAILS}|{_FAILS}\b[^.]*\b(?:fabric ?manager|nvls|symm(?:etric)?[-_ ]mem\w*|multicast)\b"),
    _told("spec_draft_mismatch.told", pattern=r"(?i)\bdraft (?:model|weights?|checkpoint)\b.*\b(?:mismatch\w*|not match|incompatible|fail\w* to load|cannot be loaded|different (?:vocab|hidden))\b|\b(?:cannot|can't|fail\w* to|unable to) load\b.*\b(?:draft|eagle\d?|speculator)\b|\bwithout (?:a )?(?:`?--speculative-draft|draft model)"),
    _told("engine_bug.told_class", pattern=r"\b(?:Assertion|Type|Attribute|Index|Key|UnboundLocal|Name|ZeroDivision|Recursion)Error\b", unless=r"(?i)cuda error|\bsm[_ ]?\d|nccl|draft|eagle.*\bload|\bload.*eagle"),
    _told("engine_bug.told_crash", pattern=r"(?i)\bcrash\w*\b.*\b(?:scheduler|tokenizer|detokenizer|worker|server|process)\b|\b(?:scheduler|tokenizer|detokenizer|worker|server)\b.*\bcrash\w*\b|\bmemory leak\b|\brace condition\b|\bis None\b|\bNoneType\b", unless=r"(?i)cuda|nccl|\bOOM\b|out of memory|segfault|segmentation|killed|\bkernels?\b|reboot|illegal|multi.?node|hang|stuck|draft|recvValue|TCPStore|refused|reset by"),
)
