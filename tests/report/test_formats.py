"""The same run for CI, for Prometheus and as JUnit; a cut run never looks whole, no name breaks a format."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from junitparser import JUnitXml

from sglgate.cli import main
from sglgate.evidence import Evidence
from sglgate.report import junit_xml, markdown_summary, openmetrics
from sglgate.run import Run, RunInfo

HOSTILE = "<script>alert(1)</script>\"'&|`../../\u0000\u0007\n\\😀" + "x" * 10_000
INFO = RunInfo(
    name="r", profile="cpu", sglgate="0", started="2026-01-01T00:00:00.000+00:00", finished="f", exit_code=0,
    launches=[{"candidate": "c", "phase_s": {"total": 9.5}}],
)  # fmt: skip
CUT = INFO.model_copy(update={"finished": None, "exit_code": None})
#: One line of the OpenMetrics 1.0 grammar: name, quoted labels with escapes, number.
SAMPLE = re.compile(r'[a-z_]+\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*\} (?:[-+]?[0-9.e+-]+|[+-]Inf|NaN)')


def make(**fields: object) -> Evidence:
    defaults: dict[str, object] = {
        "at": "2026-01-01T00:00:01.000+00:00", "run": "r", "profile": "cpu", "candidate": "c", "suite": "kv",
        "gate": "pool", "test": "suites/kv/test_pool.py::test_pool[c]", "verdict": "PASS", "reason": "why",
        "metric": "KV pool", "value": 4096, "bound": 1, "direction": "at_least", "unit": "tokens",
    }  # fmt: skip
    return Evidence.model_validate(defaults | fields)


def test_junit_has_one_case_a_test_with_its_reasons() -> None:
    records = [make(), make(verdict="UNFIT", reason="hot"), make(test="suites/kv/test_pool.py::test_other[c]")]

    suite = next(iter(JUnitXml.fromstring(junit_xml(INFO, records).encode())))

    assert (suite.tests, suite.failures, suite.errors) == (2, 1, 0)
    red = next(case for case in suite if case.result)
    assert (red.classname, red.name) == ("suites.kv.test_pool", "test_pool[c]")
    assert red.result[0].message == "UNFIT: hot"


def test_a_cut_run_is_red_in_every_format() -> None:
    assert next(iter(JUnitXml.fromstring(junit_xml(CUT, [make()]).encode()))).errors == 1
    assert markdown_summary(CUT, [make()]).startswith("## CUT")
    text = openmetrics(CUT, [make()])
    assert re.search(r"^sglgate_run_finished\{.*\} 0.0$", text, re.M)
    assert re.search(r"^sglgate_run_green\{.*\} 0.0$", text, re.M)


def test_markdown_names_every_red_gate_and_shows_all() -> None:
    text = markdown_summary(INFO, [make(), make(gate="h", verdict="FAIL", reason="too small")])

    assert text.startswith("## FAIL: 1 of 2 gates green")
    assert "- **FAIL** c kv/h: too small" in text
    assert "| c | kv/pool | PASS | KV pool | 4096 tokens | at least 1 |" in text
    assert markdown_summary(INFO, []).startswith("## NOTHING JUDGED")


def test_openmetrics_holds_values_and_verdicts_once_each() -> None:
    text = openmetrics(INFO, [make(value=1), make(value=2.5), make(gate="h", value=float("inf"), verdict="FAIL")])
    samples = [line for line in text.splitlines() if not line.startswith("#")]

    assert text.endswith("# EOF\n")
    assert all(SAMPLE.fullmatch(line) for line in samples)
    assert len({line.rsplit(" ", 1)[0] for line in samples}) == len(samples)
    assert [line.rsplit(" ", 1)[1] for line in samples if line.startswith("sglgate_gate_value")] == ["2.5", "+Inf"]
    green = [line for line in samples if 'verdict="PASS"' in line]
    assert [line.rsplit(" ", 1)[1] for line in green] == ["1.0", "0.0"]


def test_hostile_names_break_no_format() -> None:
    names = {"candidate": HOSTILE, "gate": HOSTILE, "metric": HOSTILE, "unit": HOSTILE, "test": HOSTILE}
    records = [make(**names, verdict="FAIL", reason=HOSTILE), make(**names | {"gate": HOSTILE + "y"})]

    ElementTree.fromstring(junit_xml(INFO, records))
    samples = [line for line in openmetrics(INFO, records).splitlines() if not line.startswith("#")]
    assert all(SAMPLE.fullmatch(line) for line in samples)
    assert len({line.rsplit(" ", 1)[0] for line in samples}) == len(samples)
    table = [line for line in markdown_summary(INFO, records).splitlines() if line.startswith("|")]
    assert all(line.count("|") - line.count("\\|") == 7 for line in table)
    assert "<script" not in markdown_summary(INFO, records)


@pytest.mark.parametrize(("kind", "starts"), [("md", "## PASS"), ("prometheus", "# TYPE"), ("junit", "<?xml")])
def test_the_command_prints_it_and_writes_nothing(kind: str, starts: str, tmp_path: Path, capsys) -> None:
    run = Run.begin(tmp_path, INFO.model_copy())
    run.add(make())
    run.close(0)
    before = sorted(tmp_path.rglob("*"))

    assert main(["report", str(run.folder), "--format", kind]) == 0
    assert capsys.readouterr().out.startswith(starts)
    assert sorted(tmp_path.rglob("*")) == before
