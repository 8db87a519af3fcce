# ruff: noqa: E501 - log lines are long
"""What a report tells around its log: a title, a remark, and what was passed over on the way to the failure."""

from __future__ import annotations

import pytest

from sglgate.diagnosis import diagnose_text

IGNORED = "[2025-03-10 14:17:52 TP6] Ignore import error when loading sglang.srt.models.{module}. {error}\n"
DENIED = "ValueError: Model architectures ['{architecture}'] are not supported for now. Supported architectures: dict_keys(['BaichuanForCausalLM'])\n"
GCC = "Command '['/usr/bin/gcc', '/tmp/a/main.c', '-shared', '-lcuda']' returned non-zero exit status 1."
BATCHES = "[2026-02-12 11:38:29 TP0] Prefill batch, #new-seq: 5, #new-token: 8192, #cached-token: 8, token usage: 0.13, #running-req: 18, #queue-req: 5, \n"
FRAME = '  File "/opt/v/lib/python3.12/site-packages/sglang/srt/{file}", line 12, in {function}\n'


@pytest.mark.parametrize(
    ("module", "architecture", "error", "cause"),
    [
        ("deepseek_v2", "DeepseekV3ForCausalLM", GCC, "jit_compile_failure"),
        ("llama", "LlamaForCausalLM", "No module named 'vllm'", "dependency_mismatch"),
        (
            "kimi_vl",
            "KimiVLForConditionalGeneration",
            "cannot import name 'x' from 'transformers'",
            "dependency_mismatch",
        ),
        # Another model's module says nothing of this one.
        ("mindspore", "DeepseekV3ForCausalLM", "No module named 'ms'", "model_unsupported"),
        ("kimi_vl", "KimiNextForCausalLM", "No module named 'ms'", "model_unsupported"),
    ],
)
def test_an_architecture_is_denied_for_what_its_module_failed_to_import(module, architecture, error, cause):
    log = IGNORED.format(module=module, error=error) + DENIED.format(architecture=architecture)
    answer = diagnose_text(log)
    assert answer.cause == cause
    if cause != "model_unsupported":
        assert answer.confidence == "likely"
        assert error[:30] in answer.evidence[0].text


def test_a_dropped_module_alone_is_no_failure():
    answer = diagnose_text(IGNORED.format(module="deepseek_v2", error=GCC) + BATCHES)
    assert (answer.outcome, answer.cause) == ("cut", "unknown")


def test_a_title_over_a_healthy_stretch_tells_how_it_ended_and_is_never_certain():
    title = "# [Bug] CUDA error: an illegal memory access was encountered with SGLang v0.5.8\n"
    answer = diagnose_text(title + BATCHES * 3)
    assert (answer.cause, answer.confidence) == ("illegal_memory_access", "likely")
    assert diagnose_text("# how to start it\n" + BATCHES * 3).cause == "unknown"


@pytest.mark.parametrize(
    ("told", "cause"),
    [
        ("it hangs after init, and NCCL_P2P_DISABLE=1 makes it work for us\n", "p2p_iommu_hang"),
        ("it hangs after init and nothing more comes\n", "unknown"),
        ("node:7:7 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1. It hangs after that\n", "unknown"),
    ],
)
def test_a_hang_is_blamed_on_peer_to_peer_where_a_person_says_so(told, cause):
    log = "[2026-01-01 00:00:00 TP0] Init torch distributed begin.\n" + told
    log += "[2026-01-01 00:00:01 TP0] Init torch distributed ends. mem usage=0.00 GB\n" * 4
    answer = diagnose_text(log)
    assert answer.cause == cause
    assert answer.confidence in ("likely", "unknown")


def test_a_bus_error_while_weights_are_read_is_not_blamed_on_shared_memory():
    block = "Fatal Python error: Bus error\n\nCurrent thread 0x00007769465bb740 (most recent call first):\n"
    reading = FRAME.format(file="layers/linear.py", function="weight_loader").replace(", in", " in")
    elsewhere = FRAME.format(file="distributed/shm.py", function="acquire").replace(", in", " in")
    answer = diagnose_text(block + reading)
    assert answer.cause == "unknown"
    assert "mapped file" in answer.remedy
    assert diagnose_text(block + elsewhere).cause == "shm_too_small"


def test_what_a_destructor_raised_is_passed_over():
    ignored = "Exception ignored in: <function X.__del__ at 0x7f>\nTraceback (most recent call last):\n"
    raised = "    f()\nAttributeError: 'NoneType' object has no attribute 'f'\n"
    frame = FRAME.format(file="x.py", function="__del__")
    assert diagnose_text(ignored + frame + raised).cause == "unknown"
    assert diagnose_text(frame + raised).cause == "unknown"
    assert diagnose_text(frame.replace("__del__", "plan") + raised).cause == "engine_bug"


def test_only_warnings_of_a_leak_are_no_cause():
    log = "[2026-01-01 00:00:00 TP0] UserWarning: token_to_kv_pool_allocator memory leak detected! available_size=1\n"
    assert (diagnose_text(log).outcome, diagnose_text(log).cause) == ("cut", "unknown")
    raised = log.replace("[2026-01-01 00:00:00 TP0] UserWarning", "ValueError")
    assert (diagnose_text(raised).cause, diagnose_text(raised).confidence) == ("engine_bug", "likely")


@pytest.mark.parametrize(
    ("before", "cause"),
    [
        ("Load weight begin. avail mem=78.50 GB", "weights_oom"),
        ("Capture cuda graph begin. This can take up to several minutes. avail mem=1.20 GB", "graph_capture_oom"),
        ("Load weight end. type=L, dtype=torch.bfloat16, avail mem=20.20 GB, mem usage=58.30 GB.", "runtime_oom"),
    ],
)
def test_the_memory_saver_runs_out_of_memory_in_the_phase_of_the_last_mark(before, cause):
    log = f"[2026-01-01 00:00:00 TP0] {before}\n[torch_memory_saver.cpp] CUresult error: 2 (out of memory)  file=csrc/utils.h func=cu_mem_create line=103\n"
    answer = diagnose_text(log)
    assert (answer.cause, answer.confidence) == (cause, "likely")
