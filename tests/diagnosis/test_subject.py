"""The very last resorts: dumps of standing processes, tracebacks that are all imports, and what a report is about."""

# ruff: noqa: E501 - log lines are long
from __future__ import annotations

import re
from pathlib import Path

import pytest

from sglgate.diagnosis import KNOWN_CAUSES, diagnose_text
from sglgate.diagnosis.causes.places import STANDS
from sglgate.diagnosis.causes.subjects import SUBJECTS
from sglgate.diagnosis.subject import clear, weigh

CORPUS = Path(__file__).parent / "corpus"
FRIGHTENING = (CORPUS / "written" / "none-frightening.log").read_bytes()
SITE = "/opt/v/lib/python3.12/site-packages/"
OTHER_THREAD = 'Thread 9 (idle): "Thread-1"\n    ncclCommInitRank (pynccl_wrapper.py:7)\n'
DUMP = 'Thread 7 (active+gil): "MainThread"\n    {inner} ({file}:7)\n    run_batch (scheduler.py:9)\n    event_loop_normal (scheduler.py:8)\n'
ABOUT = (
    "The capture of our hybrid model ends in a crash since the update to v0.5.9\n\n"
    "It worked in v0.5.8, so it looks like a regression of the radix cache, and the shapes differ.\n"
)


def test_the_words_name_known_causes_and_are_patterns():
    assert set(SUBJECTS) <= set(KNOWN_CAUSES) - {"none", "unknown"}
    for words in SUBJECTS.values():
        assert words
        assert all(weight > 0 and re.compile(pattern) for weight, pattern in words)


@pytest.mark.parametrize(
    ("inner", "file", "cause"),
    [
        ("rendezvous", "torch/distributed/_symmetric_memory/__init__.py", "fabric_or_symm_mem"),
        ("wait", "torch/utils/file_baton.py", "jit_compile_failure"),
        ("replay", "npu_graph_runner.py", "watchdog_hang"),
    ],
)
def test_a_process_that_stands_still_tells_by_its_main_threads_frames(inner, file, cause):
    dump = DUMP.format(inner=inner, file=file)
    for text in (dump, OTHER_THREAD + dump, dump + OTHER_THREAD):
        answer = diagnose_text(text)
        assert (answer.outcome, answer.cause, answer.confidence) == ("hung", cause, "likely")
        assert inner in answer.evidence[0].text


def test_a_process_that_answers_later_stood_in_nothing():
    dump = DUMP.format(inner="replay", file="npu_graph_runner.py")
    batch = "[2026-03-01 09:00:05 TP0] Decode batch, #running-req: 2, #token: 99, token usage: 0.01, cuda graph: True, gen throughput (token/s): 80.00, #queue-req: 0, \n"
    assert diagnose_text(batch + dump + batch).cause in ("none", "unknown")


def test_every_rule_for_standing_processes_is_a_guess():
    assert {(rule.stack, rule.confidence) for rule in STANDS} == {(True, "likely")}


def test_a_traceback_cut_among_imports_tells_of_packages():
    frame = f'  File "{SITE}sglang/%s.py", line 7, in %s\n    x()\n'
    imports = 'Traceback (most recent call last):\n  File "<frozen runpy>", line 198, in _run_module_as_main\n'
    imports += frame % ("launch_server", "<module>") + frame % ("srt/configs/__init__", "<module>")
    assert diagnose_text(imports).cause == "dependency_mismatch"
    assert diagnose_text(imports + frame % ("launch_server", "run_server")).cause == "unknown"


def test_a_report_without_a_known_line_is_judged_by_what_it_is_about():
    answer = diagnose_text(ABOUT)
    assert (answer.cause, answer.confidence) == ("engine_bug", "likely")
    assert all(item.line in (1, 3) for item in answer.evidence)


@pytest.mark.parametrize(
    "text",
    [
        ABOUT.replace("ends in a crash since", "is told of in").replace("a regression of", "a matter of"),
        "[2026-03-01 09:00:00 TP0] " + ABOUT.replace("\n", " ") + "\n",
        "It crashes on my machine, and I do not know why.\n",
    ],
)
def test_no_failure_or_no_subject_gives_no_cause(text):
    assert diagnose_text(text).cause == "unknown"


@pytest.mark.parametrize("begin", range(0, 48, 3))
def test_a_log_that_begins_inside_a_dropped_modules_line_blames_nothing(begin):
    line = "Ignore import error when loading sglang.srt.models.mine: No module named 'vllm'\n"
    assert diagnose_text(line[begin:]).confidence != "certain"
    assert diagnose_text(line[begin:]).cause in ("none", "unknown")


def test_two_subjects_of_like_weight_give_none():
    head = (1, "Some words", False)
    nccl = (2, "NCCL fails on two nodes", False)
    both = [head, nccl, (3, "/dev/shm is small, and it ends with SIGBUS", False)]
    assert clear(weigh(both)) is None
    assert clear(weigh([head, nccl])).cause == "nccl_error"
    assert clear(weigh([(1, "NCCL fails", False)])) is None


def test_commands_check_lists_and_versions_are_no_subject():
    lines = ["- [x] NCCL", "python3 -m x --disable-custom-all-reduce", "nccl: 2.27.3", "export NCCL_P2P_DISABLE=1"]
    assert weigh((at, text, False) for at, text in enumerate(lines)) == []


@pytest.mark.parametrize("first", [32, 33, 34, 35, 36, 115, 116, 117, 118, 119])
def test_no_cut_of_what_a_healthy_log_frightens_with_gives_a_cause(first):
    starts = [0, *(found.end() for found in re.finditer(b"\n", FRIGHTENING))]
    begin = starts[first - 1]
    for end in range(begin, min(begin + 420, len(FRIGHTENING)), 3):
        answer = diagnose_text(FRIGHTENING[begin:end])
        assert answer.cause in ("none", "unknown"), (FRIGHTENING[begin:end][-80:], answer.summary_lines())


def test_a_sentence_is_heard_that_holds_none_of_the_scanners_literals():
    told = "As a result, SGLang fails during JIT compilation because nvcc cannot be found.\n"
    assert diagnose_text("Some words\n\n" + told).cause == "jit_compile_failure"


@pytest.mark.parametrize(
    ("told", "cause"),
    [
        ("With --disable-custom-all-reduce the server does come up", "custom_allreduce_failure"),
        ("With --disable-custom-all-reduce it is still stuck, the same", "unknown"),
    ],
)
def test_what_made_it_work_names_the_cause(told, cause):
    assert diagnose_text(f"It is stuck after the first batch with two cards.\n{told}\n").cause == cause


@pytest.mark.parametrize(
    ("words", "cause"), [("it hangs at the first batch", "unknown"), ("we have no idea", "host_oom_killed")]
)
def test_a_kill_that_ends_a_hang_is_not_the_hosts_memory(words, cause):
    log = f"We start it with two cards and {words}.\nRank 0 scheduler died (exit code: -9)\n"
    assert diagnose_text(log).cause == cause


def test_another_sentence_of_a_paragraph_does_not_count_against_one():
    told = "The CUTLASS kernel fails on our RTX 5090 with NVFP4 weights, and the rank dies. "
    assert (
        diagnose_text(told + "All others hang in a collective until we kill them, which takes minutes. " * 3).cause
        == "kernel_arch_unsupported"
    )


@pytest.mark.parametrize(
    ("told", "cause"),
    [
        ("服务启动失败, 端口已被占用", "port_in_use"),
        ("两台机器启动时 NCCL 初始化超时", "nccl_error"),
        ("加载权重阶段显存不足", "weights_oom"),
        ("今天我们换了一台新的机器", "unknown"),
    ],
)
def test_what_is_told_in_chinese_is_read_by_the_same_rules(told, cause):
    assert diagnose_text(told + "\n").cause == cause
