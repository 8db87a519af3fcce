from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "decision.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("decision_power", ROOT / "benchmarks" / "decision_power.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_worked_example_of_the_page_is_what_the_code_prints(benchmark, capsys):
    benchmark.example()
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(rows) == 4
    assert "\n".join(rows) in PAGE


def test_every_table_of_the_benchmark_stands_on_the_page(benchmark, monkeypatch):
    heads = []
    monkeypatch.setattr(benchmark, "RUNS", 50)
    monkeypatch.setattr(benchmark, "table", lambda title, head, rows: heads.append((title, head)))
    for name in ("operating", "sizes", "robust", "noisier"):
        benchmark.TABLES[name]()
    assert [title for title, head in heads if "| " + " | ".join(head) + " |" not in PAGE] == []
