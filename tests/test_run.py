"""Evidence survives: whole lines after a kill, a clear error on a full disk, no secret in any file."""

from __future__ import annotations

import resource
import signal
from pathlib import Path

import pytest

from sglgate.errors import MisuseError, SglgateError
from sglgate.evidence import Evidence, Verdict
from sglgate.run import EVIDENCE, Run, RunInfo, now, read_evidence, read_run


def evidence(**fields: object) -> Evidence:
    defaults = {
        "at": now(), "run": "r", "profile": "cpu", "candidate": "c", "suite": "kv", "gate": "g", "test": "t",
        "verdict": Verdict.PASS, "reason": "", "metric": "m", "value": 1, "bound": 1, "direction": "equal", "unit": "",
    }  # fmt: skip
    return Evidence.model_validate(defaults | fields)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.begin(tmp_path, RunInfo(name="r", profile="cpu", sglgate="0", started=now()))


def test_what_is_added_is_read_back_the_same(run: Run) -> None:
    hostile = "<script>\u0000\u2028 ../../ \"'\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")
    written = [evidence(reason=hostile), evidence(value=float("inf"), interval=(1.5, float("inf")))]
    for record in written:
        run.add(record)

    assert read_evidence(run.folder) == written


def test_half_a_surrogate_pair_spoils_no_line(run: Run) -> None:
    run.add(evidence(reason="cut \ud83d here"))

    assert read_evidence(run.folder)[0].reason == "cut ? here"


def test_a_torn_last_line_is_left_out_and_the_rest_is_kept(run: Run) -> None:
    run.add(evidence())
    with (run.folder / EVIDENCE).open("ab") as file:
        file.write(b'{"schema_version":1,"at"')

    assert len(read_evidence(run.folder)) == 1


def test_a_broken_line_in_the_middle_is_an_error(run: Run) -> None:
    (run.folder / EVIDENCE).write_bytes(b"nonsense\n")
    run.add(evidence())

    with pytest.raises(MisuseError, match="line 1 is not evidence"):
        read_evidence(run.folder)


def test_a_full_disk_is_a_clear_error_and_leaves_the_earlier_evidence_whole(run: Run) -> None:
    run.add(evidence())
    size = (run.folder / EVIDENCE).stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, hard))
    try:
        with pytest.raises(SglgateError, match=r"evidence cannot be written to .*evidence.jsonl"):
            run.add(evidence())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)

    assert (run.folder / EVIDENCE).stat().st_size == size
    assert len(read_evidence(run.folder)) == 1


def test_a_run_that_did_not_end_says_so(run: Run) -> None:
    assert read_run(run.folder).finished is None

    run.close(0)

    assert read_run(run.folder).finished is not None


def test_secrets_leave_neither_evidence_nor_description(tmp_path: Path) -> None:
    secret = "hf_abcdefghijklmnopqrstuvwxyz012345"
    info = RunInfo(name="r", profile="cpu", sglgate="0", started=now())
    info.candidates = {"c": {"environment": {"MY_API_KEY": "plain words", "N": "1"}, "model": f"m?token={secret}"}}
    run = Run.begin(tmp_path, info)
    run.add(evidence(reason=f"used {secret}", detail={"HF_TOKEN": secret}))
    run.close(0)

    text = "".join(p.read_text() for p in run.folder.iterdir() if p.is_file())
    assert secret not in text
    assert "plain words" not in text
    assert read_run(run.folder).candidates["c"]["environment"]["N"] == "1"


def test_a_folder_that_is_no_run_is_misuse(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="not a run"):
        read_evidence(tmp_path)
    with pytest.raises(MisuseError, match="not a run"):
        read_run(tmp_path)
