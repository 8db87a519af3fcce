# ruff: noqa: E501 - log lines are long
"""Excerpts of public reports, as people paste them: what was understood once stays understood."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from sglgate.diagnosis import KNOWN_CAUSES, diagnose_text

CASES = tomllib.loads((Path(__file__).parent / "corpus" / "public.toml").read_text())["case"]
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 80.00 GiB of which 1.00 GiB is free. "
FRAME = '  File "/opt/v/lib/python3/site-packages/torch/utils/_device.py", line 79, in __torch_function__\n'


def test_the_accepted_causes_are_known_and_there_are_many_reports():
    assert len(CASES) >= 60
    assert {cause for case in CASES for cause in case["causes"]} <= set(KNOWN_CAUSES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["issue"])
def test_an_excerpt_of_a_public_report_gets_an_accepted_cause(case):
    answer = diagnose_text(case["log"])
    assert answer.cause in case["causes"], answer.summary_lines()


@pytest.mark.parametrize("margin", ["> ", "```\n", "`", "**"])
def test_the_marks_of_a_pasted_text_hide_no_exception(margin):
    answer = diagnose_text(f"{margin}RuntimeError: CUDA error: no kernel image is available for execution\n")
    assert answer.cause == "kernel_arch_unsupported"


def test_an_exception_in_the_middle_of_a_sentence_is_never_certain():
    raised = "ValueError: Model architectures ['NoSuchForCausalLM'] are not supported for now."
    assert diagnose_text(raised).confidence == "certain"
    told = diagnose_text("since the update it says " + raised)
    assert (told.cause, told.confidence) == ("model_unsupported", "likely")


def test_running_out_of_memory_nobody_knows_where_is_unknown():
    assert diagnose_text(OOM).cause == "unknown"
    assert diagnose_text(FRAME + OOM).cause == "weights_oom"
    loading = "Loading safetensors checkpoint shards:  50% Completed | 4/8 [00:02<00:02,  1.50it/s]\n"
    answer = diagnose_text(loading + OOM)
    assert (answer.cause, answer.confidence) == ("weights_oom", "likely")


@pytest.mark.parametrize(("allocated", "cause"), [("36.00 GiB", "gpu_memory_held"), ("77.00 GiB", "weights_oom")])
def test_memory_that_nobody_is_named_for_is_held_by_another(allocated, cause):
    own = "Including non-PyTorch memory, this process has 0 bytes memory in use. "
    tail = f"Of the allocated memory {allocated} is allocated by PyTorch, and 0.50 GiB is reserved by PyTorch but unallocated."
    answer = diagnose_text(FRAME + OOM + own + tail)
    assert (answer.cause, answer.confidence) == (cause, "likely")
    assert ("by this process's torch" in answer.remedy) == (cause == "gpu_memory_held")


@pytest.mark.parametrize(
    ("xid", "cause"), [(13, "illegal_memory_access"), (31, "illegal_memory_access"), (79, "device_fault")]
)
def test_an_xid_of_the_application_is_no_fault_of_the_card(xid, cause):
    line = f"NVRM: Xid (PCI:0000:41:00): {xid}, pid=7, name=python3, Ch 00000008, intr: 5\n"
    assert diagnose_text(line).cause == cause
