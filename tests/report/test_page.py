"""The page shows every verdict and reason, is whole in itself, and no name of a file or a log can break it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from sglgate.cli import main
from sglgate.evidence import Evidence, Verdict
from sglgate.report import build_board, summary_lines, write_html
from sglgate.run import Run, RunInfo, now, read_evidence

HOSTILE = "<script>alert(1)</script>\"'&../../\u0000\u0007😀" + "x" * 10_000


def evidence(**fields: object) -> Evidence:
    defaults: dict[str, object] = {
        "at": now(), "run": "r", "profile": "cpu", "candidate": "c", "suite": "kv", "gate": "g", "test": "t",
        "verdict": Verdict.PASS, "reason": "", "metric": "m", "value": 1, "bound": 1, "direction": "equal", "unit": "",
    }  # fmt: skip
    return Evidence.model_validate(defaults | fields)


@pytest.fixture
def make_run(tmp_path: Path):
    def make(*records: Evidence, finished: bool = True) -> Path:
        info = RunInfo(
            name="r", profile="cpu", sglgate="0", started=now(), selection="cpu",
            node={"cpu": "a CPU", "cores": 2, "ram_gib": 8.0, "kernel": "6", "gpus": []},
        )  # fmt: skip
        run = Run.begin(tmp_path, info)
        for record in records:
            run.add(record)
        if finished:
            run.close(0)
        return run.folder

    return make


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def tags(folder: Path) -> list[tuple[str, dict[str, str | None]]]:
    parser = _Tags()
    parser.feed((folder / "index.html").read_text())
    return parser.tags


def test_the_worst_record_is_the_cells_verdict_and_the_worst_cell_the_runs() -> None:
    board = build_board([evidence(), evidence(verdict="UNFIT"), evidence(verdict="INCONCLUSIVE"), evidence(gate="h")])

    assert board.cells["c"][("kv", "g")].verdict is Verdict.UNFIT
    assert board.cells["c"][("kv", "h")].verdict is Verdict.PASS
    assert board.verdict is Verdict.UNFIT
    assert [gate for _, gate, _ in board.reds()] == [("kv", "g")]


def test_nothing_judged_is_not_green() -> None:
    info = RunInfo(name="r", profile="cpu", sglgate="0", started=now())

    assert build_board([]).verdict is None
    assert summary_lines(info, [])[-1] == "nothing was judged: not green"


def test_every_red_reason_and_its_log_tail_is_on_the_page(make_run) -> None:
    folder = make_run(evidence(verdict="FAIL", reason="too <small> by 3", logs=("logs/a.log",)))
    (folder / "logs" / "a.log").write_text(
        "first\n" + "line\n" * 500 + "the \x1b[31mlast line, token=hf_abcdefghijklmnop1234\n"
    )

    page = write_html(folder).read_text()

    assert "too &lt;small&gt; by 3" in page
    assert "the [31mlast line" in page
    assert "hf_abcdefghijklmnop1234" not in page
    assert "first\n" not in page


def test_the_page_loads_nothing_from_elsewhere(make_run) -> None:
    folder = make_run(evidence())
    write_html(folder)

    for tag, attributes in tags(folder):
        assert tag not in {"script", "link", "iframe", "img"}
        for name in ("src", "href"):
            assert not re.match(r"\w+:|//", attributes.get(name) or "")
    assert "url(" not in (folder / "index.html").read_text()


def test_hostile_names_stay_text(make_run) -> None:
    names = {"candidate": HOSTILE, "gate": HOSTILE, "reason": HOSTILE, "metric": HOSTILE, "unit": HOSTILE}
    folder = make_run(evidence(verdict="FAIL", logs=("logs/absent.log",), **names))

    write_html(folder)

    assert "script" not in {tag for tag, _ in tags(folder)}
    assert not any(name.startswith("on") for _, attributes in tags(folder) for name in attributes)


def test_a_cut_run_says_so_and_is_not_green(make_run, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_run(evidence(), finished=False)

    assert main(["report", str(folder)]) == 1

    assert "the run did not end" in (folder / "index.html").read_text()
    assert "1 of 1 gates green" in capsys.readouterr().out


def test_the_page_is_rebuilt_byte_for_byte(make_run) -> None:
    folder = make_run(evidence(), evidence(verdict="FAIL", reason="no", gate="h"))
    first = write_html(folder).read_bytes()
    (folder / "index.html").unlink()

    main(["report", str(folder)])

    assert (folder / "index.html").read_bytes() == first


def test_report_of_something_else_is_misuse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path / "absent")]) == 2
    assert "not a run" in capsys.readouterr().err


def test_every_record_is_on_the_page_with_its_figures(make_run) -> None:
    folder = make_run(evidence(value=1234567, interval=(1.0, float("inf")), unit="tokens"))

    page = write_html(folder).read_text()

    assert "1\u202f234\u202f567" in page
    assert "1 … inf" in page
    assert len(read_evidence(folder)) == 1
