"""A baseline is what a person pinned, with a reason; absent is red."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sglgate.cli import main
from sglgate.errors import MisuseError
from sglgate.store import Filter, NoBaselineError, Store, baseline, import_run, pin, pins, story
from tests.store.made import make_evidence

KEY = {"profile": "cpu", "candidate": "c", "suite": "kv", "gate": "pool", "metric": "KV pool"}


def test_a_pin_holds_until_a_person_moves_it_and_keeps_its_story(where: str, make_run) -> None:
    with Store(where, create=True) as store:
        import_run(store, make_run(make_evidence(), name="first"))
        pin(store, "first", Filter(gate="kv/pool"), who="A", why="new node")
        import_run(store, make_run(make_evidence(value=5000), name="second"))
        assert baseline(store, **KEY).value == 4096
        pin(store, "second", Filter(gate="kv/pool"), who="B", why="more memory")

        assert [(p.who, p.why, p.before, p.value, p.run) for p in story(store, **KEY)] == [
            ("A", "new node", None, 4096, "first"), ("B", "more memory", 4096, 5000, "second"),
        ]  # fmt: skip
        assert [p.value for p in pins(store)] == [5000]
        assert pins(store, profile="blackwell") == []


def test_a_missing_baseline_is_red(where: str) -> None:
    with Store(where, create=True) as store, pytest.raises(NoBaselineError, match="no baseline is pinned"):
        baseline(store, **KEY)


@pytest.mark.parametrize(
    ("fields", "who", "why", "says"),
    [
        ({"verdict": "FAIL"}, "A", "w", "only a green number"),
        ({"value": "text"}, "A", "w", "only a green number"),
        ({"gate": "other"}, "A", "w", "no such result"),
        ({}, " ", "w", "--who"),
        ({}, "A", "", "--why"),
    ],
)
def test_what_cannot_be_a_baseline_is_refused_whole(make_run, tmp_path: Path, fields, who, why, says) -> None:
    with Store(str(tmp_path / "s"), create=True) as store:
        import_run(store, make_run(make_evidence(metric="fine"), make_evidence(**fields)))
        with pytest.raises(MisuseError, match=says):
            pin(store, "r", Filter(gate="kv/pool", metric="KV pool"), who=who, why=why)
        assert pins(store) == []


def test_a_metric_measured_twice_is_no_baseline(make_run, tmp_path: Path) -> None:
    with Store(str(tmp_path / "s"), create=True) as store:
        import_run(store, make_run(make_evidence(), make_evidence(value=1)))
        with pytest.raises(MisuseError, match="more than once"):
            pin(store, "r", Filter(), who="A", why="w")


def test_the_command_pins_shows_and_is_red_without(make_run, tmp_path: Path, capsys) -> None:
    store = ["--store", str(tmp_path / "s")]
    show = ["baseline", "show", "--profile", "cpu", "--candidate", "c", "--metric", "KV pool", *store]
    main(["history", "import", str(make_run(make_evidence())), *store])

    assert main([*show, "--gate", "kv/pool"]) == 1
    assert main([*show, "--gate", "pool"]) == 2
    assert main(["baseline", "pin", "r", "--gate", "kv/pool", "--who", "A", "--why", "w", *store]) == 0
    capsys.readouterr()
    assert main([*show, "--gate", "kv/pool", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["value"] == 4096
