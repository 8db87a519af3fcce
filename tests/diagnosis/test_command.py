"""``sglgate diagnose``: the JSON contract, the exit codes, the order, the context."""

# ruff: noqa: E501 - log lines are long
from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from sglgate.cli import main
from sglgate.diagnosis import diagnose_text

WRITTEN = Path(__file__).parent / "corpus" / "written"
HEALTHY, FAILED = WRITTEN / "none-plain-0.5.23.log", WRITTEN / "too_few_gpus-0.5.9.log"
KEYS = ["file", "outcome", "phase", "cause", "confidence", "evidence", "remedy", "avoid", "facts"]


def test_json_is_one_object_a_line_in_the_order_of_the_arguments(capsys):
    assert main(["diagnose", str(FAILED), str(HEALTHY), str(FAILED), "--json"]) == 1
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["file"] for answer in answers] == [str(FAILED), str(HEALTHY), str(FAILED)]
    assert [answer["cause"] for answer in answers] == ["too_few_gpus", "none", "too_few_gpus"]
    for answer in answers:
        assert list(answer) == KEYS
        assert all(sorted(item) == ["line", "text"] for item in answer["evidence"])


def test_a_healthy_log_exits_with_0(capsys):
    assert main(["diagnose", str(HEALTHY)]) == 0
    assert "none (certain)" in capsys.readouterr().out


def test_standard_input_is_a_log_too(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(FAILED.read_bytes())))
    assert main(["diagnose", "-", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["file"] == "-"


def test_misuse_prints_one_error_and_no_answer(capsys, tmp_path):
    assert main(["diagnose", str(HEALTHY), str(tmp_path / "absent.log")]) == 2
    assert main(["diagnose", "-", "-"]) == 2
    assert main(["diagnose", str(HEALTHY), "--context", str(tmp_path / "absent")]) == 2
    bad = tmp_path / "context.json"
    bad.write_text('{"exit_code": "nine"}')
    assert main(["diagnose", str(HEALTHY), "--context", str(bad)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "absent.log" in err
    assert "exit_code" in err


def test_the_evidence_names_the_line_of_the_log():
    answer = diagnose_text(FAILED.read_bytes())
    line = answer.evidence[0]
    assert FAILED.read_text().splitlines()[line.line - 1].endswith(line.text)


SILENT = b"".join(b"[2026-01-01 00:00:0%d TP%d] Init torch distributed begin.\n" % (rank, rank) for rank in range(2))


@pytest.mark.parametrize(
    ("context", "outcome", "cause", "confidence"),
    [
        (None, "cut", "unknown", "unknown"),
        ({"timed_out": True}, "hung", "p2p_iommu_hang", "likely"),
        ({"alive": True}, "hung", "p2p_iommu_hang", "likely"),
        ("it is stuck here for an hour", "hung", "p2p_iommu_hang", "likely"),
        ("hangs; NCCL_P2P_DISABLE=1 helps", "hung", "p2p_iommu_hang", "likely"),
        ({"exit_code": -9}, "failed", "host_oom_killed", "likely"),
        ({"exit_code": 1}, "failed", "unknown", "unknown"),
        ({"exit_code": 1, "dmesg": "NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus"}, "failed", "device_fault", "likely"),
        ('{"dmesg": "Out of memory: Killed process 7 (sglang)"}', "failed", "host_oom_killed", "likely"),
    ],
)  # fmt: skip
def test_a_silent_log_is_judged_by_what_is_known_beside_it(context, outcome, cause, confidence):
    answer = diagnose_text(SILENT, context=context)
    assert (answer.outcome, answer.cause, answer.confidence) == (outcome, cause, confidence)


def test_a_remark_at_the_end_of_the_log_that_it_hangs_is_heard():
    answer = diagnose_text(SILENT + b"It hangs at this point.\n")
    assert (answer.outcome, answer.cause) == ("hung", "p2p_iommu_hang")


def test_a_single_rank_that_stands_still_is_no_peer_to_peer_problem():
    answer = diagnose_text(
        b"[2026-01-01 00:00:00] server_args={'tp_size': 1}\n[2026-01-01 00:00:01] Init torch distributed begin.\n",
        context={"timed_out": True},
    )
    assert (answer.outcome, answer.cause) == ("hung", "unknown")


def test_the_size_of_a_token_from_the_context_makes_the_fraction_exact():
    log = (WRITTEN / "kv_budget_exhausted-0.5.23-tp8.log").read_bytes()
    answer = diagnose_text(log, context={"kv_bytes_per_token": 70272})
    # 1 - 40.10/93.80 + 131072 tokens * 70272 bytes / 2**30 / 93.80, rounded up
    assert answer.facts["fraction_for_one_request"] == 0.664
    assert "at least 0.664" in answer.remedy


def test_weights_that_no_fraction_can_fit_are_said_to_need_another_remedy():
    log = b"[2026-01-01 00:00:00] Load weight begin. avail mem=94.00 GB\n[2026-01-01 00:00:00] Load weight end. type=L, dtype=torch.bfloat16, avail mem=0.90 GB, mem usage=93.10 GB.\nRuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n"
    answer = diagnose_text(log)
    assert answer.cause == "kv_budget_exhausted"
    assert "no --mem-fraction-static can help" in answer.remedy


def test_who_holds_the_card_is_named_from_the_context():
    log = (WRITTEN / "gpu_memory_held-unbalanced-0.5.5.log").read_bytes()
    answer = diagnose_text(log, context={"gpu_processes": [{"pid": 77, "gib": 53.5, "name": "python3"}]})
    assert answer.remedy.startswith("process 77 python3 holds 53.50 GiB")


def test_a_hundred_small_logs_take_a_few_seconds(capsys):
    import time

    names = [str(path) for path in sorted(WRITTEN.glob("*.log"))] * 2
    begin = time.process_time()
    main(["diagnose", *names[:100], "--json"])
    assert time.process_time() - begin < 5
    assert len(capsys.readouterr().out.splitlines()) == 100
