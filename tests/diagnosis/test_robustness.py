"""No input makes the diagnosis raise, and none makes it name a cause with confidence for a healthy server."""

# ruff: noqa: E501 - log lines are long
from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglgate.diagnosis import KNOWN_CAUSES, diagnose_text

CORPUS = Path(__file__).parent / "corpus"
HEALTHY = [path.read_bytes() for path in sorted(CORPUS.glob("*/none-*.log"))] + [
    path.read_bytes() for path in sorted(CORPUS.glob("real/healthy*.log"))
]
FAILED = [path for path in sorted(CORPUS.glob("written/*.log")) if not path.name.startswith(("none", "unknown"))]
WORDS = b" ".join(path.read_bytes() for path in FAILED).split()


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=4000))
def test_random_bytes_are_answered(data):
    answer = diagnose_text(data)
    assert answer.cause in KNOWN_CAUSES
    assert answer.confidence in ("certain", "likely", "unknown")


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(sorted(set(WORDS))), max_size=400), st.integers(0, 2**32))
def test_words_of_failures_in_any_order_are_answered(words, seed):
    shuffle = random.Random(seed)
    text = b"".join(word + shuffle.choice([b" ", b"\n", b": ", b"\r", b"\x1b[31m", b"\x00"]) for word in words)
    assert diagnose_text(text).cause in KNOWN_CAUSES


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(HEALTHY), st.floats(0, 1), st.floats(0, 1))
def test_a_cut_healthy_log_never_gets_a_cause(log, begin, end):
    low, high = sorted((int(begin * len(log)), int(end * len(log))))
    answer = diagnose_text(log[low:high])
    assert answer.confidence != "certain" or answer.cause == "none", answer.summary_lines()
    # A line that lost its beginning may have lost the word that made it harmless; whole lines have not.
    answer = diagnose_text(log[log.rfind(b"\n", 0, low) + 1 : high])
    assert answer.cause in ("none", "unknown"), answer.summary_lines()
    assert answer.outcome in ("ready", "cut", "failed")


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(HEALTHY), st.integers(0, 2**32))
def test_a_healthy_log_whose_ranks_interleave_otherwise_stays_healthy(log, seed):
    shuffle = random.Random(seed)
    lines = log.splitlines(keepends=True)
    for at in range(len(lines) - 1):
        first, second = lines[at], lines[at + 1]
        if b" TP" in first[:30] and b" TP" in second[:30] and first[20:27] != second[20:27] and shuffle.random() < 0.5:
            lines[at], lines[at + 1] = second, first
    answer = diagnose_text(b"".join(lines))
    assert (answer.outcome, answer.cause) == ("ready", "none")


@pytest.mark.parametrize("path", FAILED, ids=lambda path: path.stem)
def test_a_failure_cut_at_its_head_is_never_given_another_cause_with_certainty(path):
    data = path.read_bytes()
    whole = diagnose_text(data)
    for part in (0.2, 0.4, 0.6, 0.8):
        answer = diagnose_text(data[int(part * len(data)) :])
        assert answer.confidence != "certain" or answer.cause == whole.cause, (part, answer.summary_lines())


@pytest.mark.parametrize(
    "carrier",
    [b"sgl-1  | ", b"Mar 01 12:00:00 node python3[7]: ", b"2026-03-01T12:00:00.123Z stderr F ", b"\x1b[31m"],
)
@pytest.mark.parametrize("path", FAILED[::3], ids=lambda path: path.stem)
def test_what_carries_the_log_does_not_change_the_cause(path, carrier):
    data = path.read_bytes()
    carried = b"".join(carrier + line for line in data.splitlines(keepends=True))
    plain, other = diagnose_text(data), diagnose_text(carried)
    assert (other.cause, other.phase) == (plain.cause, plain.phase)


@pytest.mark.parametrize("name", ["weights_oom-create", "kernel_arch_unsupported-no-image", "too_few_gpus-0.5.9"])
def test_an_export_with_the_newest_line_first_is_turned_round(name):
    data = (CORPUS / "written" / f"{name}.log").read_bytes()
    lines = [b"ERROR 2026-03-01T09:%02d:%02dZ " % divmod(at, 60) + line for at, line in enumerate(data.splitlines())]
    backwards = b"\n".join(reversed(lines))
    plain, answer = diagnose_text(data), diagnose_text(backwards)
    assert (answer.cause, answer.phase) == (plain.cause, plain.phase)
    assert answer.evidence[0].text in backwards.splitlines()[answer.evidence[0].line - 1].decode()
    assert answer.facts["reversed"]


FRAME = '  File "/opt/v/lib/python3.12/site-packages/sglang/srt/x.py", line 1, in f\n'


def test_a_quoted_line_of_source_code_is_no_failure():
    log = f'Traceback (most recent call last):\n{FRAME}    raise RuntimeError("CUDA out of memory")\nRuntimeError: something else\n'
    assert diagnose_text(log).cause == "unknown"


def test_a_bare_assert_tells_by_its_source_line():
    log = f"Traceback (most recent call last):\n{FRAME}    assert self.total_num_heads % tp_size == 0\nAssertionError\n"
    assert diagnose_text(log).cause == "parallel_shape_assert"


def test_an_exception_whose_class_does_not_end_in_error_is_one():
    log = f"Traceback (most recent call last):\n{FRAME}    x()\npynvml.NVMLError_DriverNotLoaded: Driver Not Loaded\n"
    answer = diagnose_text(log)
    assert (answer.cause, answer.confidence) == ("cuda_toolchain_mismatch", "certain")


@pytest.mark.parametrize("path", FAILED[1::5], ids=lambda path: path.stem)
def test_dockers_json_lines_are_unwrapped(path):
    data = path.read_text()
    wrapped = "".join(
        json.dumps({"log": line, "stream": "stderr", "time": "2026-03-01T00:00:00Z"}) + "\n"
        for line in data.splitlines(keepends=True)
    )
    plain, other = diagnose_text(data), diagnose_text(wrapped)
    assert (other.cause, other.phase, other.evidence[:1]) == (plain.cause, plain.phase, plain.evidence[:1])
