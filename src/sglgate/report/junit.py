"""JUnit from evidence alone: for a run that was killed before pytest could write its own.

The schema is what pytest's ``xunit1`` family writes: one ``testcase`` a test with its records as properties. A cut
run gets one more test case, in error: a report that holds only what was judged would look complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from sglgate.evidence import Evidence, Verdict
from sglgate.naming import xml_text
from sglgate.run import RunInfo

_FIELDS = ("metric", "value", "bound", "direction", "unit", "n", "interval", "verdict", "candidate", "stack")


def junit_xml(info: RunInfo, evidence: Sequence[Evidence]) -> str:
    """The whole file; the same evidence gives the same bytes."""
    tests: dict[str, list[Evidence]] = {}
    for record in evidence:
        tests.setdefault(record.test, []).append(record)
    root = ElementTree.Element("testsuites")
    name = xml_text(f"sglgate {info.profile}{' REPLAY' if info.replay else ''}")
    suite = ElementTree.SubElement(root, "testsuite", name=name, timestamp=info.started)
    if info.replay:
        properties = ElementTree.SubElement(suite, "properties")
        ElementTree.SubElement(properties, "property", name="replay", value=xml_text(info.replay))
    failures = 0
    for test, records in tests.items():
        case = ElementTree.SubElement(suite, "testcase", _names(test))
        _describe(case, records)
        reds = [record for record in records if record.verdict is not Verdict.PASS]
        failures += bool(reds)
        if reds:
            text = xml_text("\n".join(f"{red.verdict}: {red.reason}" for red in reds))
            failure = ElementTree.SubElement(case, "failure", message=text.splitlines()[0][:1000])
            failure.text = text
    errors = 0
    if info.finished is None:
        errors = 1
        case = ElementTree.SubElement(suite, "testcase", classname="sglgate", name="the run ends", time="0")
        ElementTree.SubElement(case, "error", message="the run was cut: what it had not judged is not in this file")
    counts = {"tests": len(tests) + errors, "failures": failures, "errors": errors, "skipped": 0}
    suite.attrib.update({name: str(count) for name, count in counts.items()})
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _names(test: str) -> dict[str, str]:
    """As pytest names them: the file's path with dots, then the function with its parameters."""
    file, _, name = test.partition("::")
    return {
        "classname": xml_text(file.removesuffix(".py").replace("/", ".")),
        "name": xml_text(name or file),
        "file": xml_text(file),
        "time": "0",
    }


def _describe(case: ElementTree.Element, records: Sequence[Evidence]) -> None:
    properties = ElementTree.SubElement(case, "properties")
    for record in records:
        found = [(field, str(getattr(record, field))) for field in _FIELDS]
        for name, value in (*found, *(("log", log) for log in record.logs)):
            ElementTree.SubElement(properties, "property", name=name, value=xml_text(value))
