"""Last resorts: an exception's place and a person's words decide only where nothing else does, and never certainly."""

# ruff: noqa: E501 - log lines are long
from __future__ import annotations

from pathlib import Path

import pytest

from sglgate.diagnosis import Diagnoser, diagnose_text
from sglgate.diagnosis.causes.guesses import TOLD
from sglgate.diagnosis.causes.places import BARE, CUT, PLACES
from sglgate.diagnosis.model import Grade

HEALTHY = sorted((Path(__file__).parent / "corpus").glob("real/healthy*.log"))
TITLE = "# [Bug] Watchdog timeout after an idle hour\n\n"
UP = "[2026-03-01 09:00:00] INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)\n"
DECODE = "[2026-03-01 09:00:05 TP0] Decode batch, #running-req: 2, #token: 99, token usage: 0.01, cuda graph: True, gen throughput (token/s): 80.00, #queue-req: 0, \n"
DIED = (
    "RuntimeError: Rank 0 scheduler died during initialization (exit code: {}). If exit code is -9 (SIGKILL), a common "
    "cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check.\n"
)


def test_a_guess_is_never_certain_and_goes_last():
    assert {signature.confidence for signature in (*PLACES, *BARE, *CUT, *TOLD)} == {"likely"}
    assert all(signature.grade in (Grade.GUESS, Grade.HINT) for signature in (*PLACES, *BARE, *CUT, *TOLD))


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: path.stem)
def test_the_title_over_a_healthy_log_takes_its_certainty(path):
    log = path.read_text()
    plain, told = diagnose_text(log), diagnose_text(TITLE + log)
    assert (plain.outcome, plain.cause, plain.confidence) == ("ready", "none", "certain")
    assert (told.outcome, told.cause, told.confidence) == ("failed", "watchdog_hang", "likely")


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: path.stem)
def test_no_line_of_a_healthy_log_is_taken_for_a_persons(path):
    diagnoser = Diagnoser()
    diagnoser.feed(path.read_bytes())
    diagnoser.close()
    assert [hit for hit in diagnoser.incident.hits if hit.signature.told] == []


def test_a_known_wording_goes_before_the_title():
    answer = diagnose_text(TITLE + "RuntimeError: CUDA error: no kernel image is available for execution\n")
    assert answer.cause == "kernel_arch_unsupported"


def test_a_title_that_tells_no_cause_gives_none():
    answer = diagnose_text(
        "# [Bug] It does not work on my machine\n\nIt fails when I start it, and I do not know why.\n"
    )
    assert (answer.cause, answer.confidence) == ("unknown", "unknown")


def test_an_explicit_error_of_unknown_wording_stays_unknown():
    frame = '  File "/opt/v/lib/python3.12/site-packages/sglang/srt/mem_cache/x.py", line 1, in f\n'
    log = f"Traceback (most recent call last):\n{frame}    x()\nRuntimeError: nobody has seen this\n"
    assert diagnose_text(log).cause == "unknown"


def test_a_log_that_is_cut_while_it_serves_shows_a_server_that_is_up():
    answer = diagnose_text(DECODE * 3)
    assert (answer.outcome, answer.cause, answer.confidence) == ("ready", "none", "likely")
    assert diagnose_text(DECODE * 3, context={"timed_out": True}).outcome == "hung"
    assert diagnose_text(DECODE * 3, context={"exit_code": 1}).cause == "unknown"


def test_answers_at_the_end_of_a_log_show_a_server_that_is_up():
    assert diagnose_text('INFO:     10.0.0.1:5 - "POST /generate HTTP/1.1" 200 OK\n').outcome == "ready"
    assert (
        diagnose_text('INFO:     10.0.0.1:5 - "POST /generate HTTP/1.1" 500 Internal Server Error\n').cause == "unknown"
    )


def test_a_log_that_is_cut_before_ready_is_cut_and_nothing_failed_in_it():
    answer = diagnose_text(UP)
    assert (answer.outcome, answer.cause, answer.confidence) == ("cut", "none", "likely")
    assert diagnose_text("# It crashes later, and I have no log of it\n" + UP).cause == "unknown"


@pytest.mark.parametrize(("code", "cause"), [(-3, "unknown"), (255, "unknown"), (-9, "host_oom_killed")])
def test_the_parents_advice_on_a_kill_is_no_kill(code, cause):
    assert diagnose_text("[2026-03-01 09:00:00] Launching.\n" + DIED.format(code)).cause == cause


def test_a_told_out_of_memory_takes_its_phase_from_the_cut_traceback():
    frame = '  File "/opt/v/lib/python3.12/site-packages/sglang/srt/model_executor/cuda_graph_runner.py", line 1, in capture\n'
    assert diagnose_text("# [Bug] OOM on one card\n\n" + frame).cause == "graph_capture_oom"
    assert diagnose_text("# [Bug] OOM on one card\n").cause == "unknown"


SITE = "/opt/v/lib/python3.12/site-packages/"


def frame(path, function):
    return f'  File "{path}", line 7, in {function}\n    x()\n'


def test_a_traceback_in_one_line_is_read_like_one_in_many():
    frames = frame(SITE + "sglang/srt/managers/scheduler.py", "__init__")
    inner = frame(SITE + "transformers/models/auto/configuration_auto.py", "__getitem__")
    lines = f"Traceback (most recent call last):\n{frames}{inner}KeyError: 'nobodys_model'\n"
    plain, folded = diagnose_text(lines), diagnose_text(" ".join(lines.splitlines()) + "\n")
    escaped = diagnose_text(lines.replace("\n", "\\n") + "\n")
    assert plain.cause == folded.cause == escaped.cause == "model_unsupported"
    assert {answer.facts["signature"] for answer in (plain, folded, escaped)} == {"model_unsupported.config_key"}


@pytest.mark.parametrize(
    "path",
    [
        SITE + "sglang/srt/layers/sampler.py",
        "/sgl-workspace/sglang/python/sglang/srt/layers/sampler.py",
        ".../srt/layers/sampler.py",
        "C:\\src\\sglang\\srt\\layers\\sampler.py",
        "python/sglang/srt/layers/sampler.py",
    ],
)
def test_sglangs_own_code_is_known_wherever_it_lies(path):
    log = f"Traceback (most recent call last):\n{frame(path, 'sample')}ValueError: nobody has seen this\n"
    answer = diagnose_text(log)
    assert (answer.cause, answer.confidence) == ("engine_bug", "likely")


def test_a_traceback_that_is_cut_tells_only_by_a_telling_place():
    telling = frame(SITE + "sglang/srt/layers/quantization/fp8.py", "create_weights")
    assert diagnose_text(telling).cause == "quant_mismatch"
    assert diagnose_text(frame(SITE + "sglang/srt/managers/scheduler.py", "event_loop_overlap")).cause == "unknown"


def test_an_exception_of_the_cards_runtime_goes_before_the_place_that_raised_it():
    own = frame(SITE + "sglang/srt/layers/sampler.py", "forward")
    log = f"Traceback (most recent call last):\n{own}RuntimeError: HIP error: invalid device function\n"
    assert diagnose_text(log).cause == "kernel_arch_unsupported"


@pytest.mark.parametrize(
    "words",
    [
        "RuntimeError: can't start new thread",
        "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:5544",
        "OSError: [Errno 24] Too many open files",
        "RuntimeError: Initialization failed. Please see the error messages above.",
    ],
)
def test_a_bare_exception_that_tells_of_something_else_stays_unknown(words):
    assert diagnose_text(words + "\n").cause == "unknown"
