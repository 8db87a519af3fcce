"""A run is in the store whole or not at all, once, whatever it is named and however many import at a time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from sglgate.cli import main
from sglgate.decision import NoisePrior, NoPrior, pool
from sglgate.errors import MisuseError
from sglgate.evidence import AA_DETAIL
from sglgate.store import (
    Filter,
    Outcome,
    Store,
    StoreError,
    aa_history,
    board,
    import_run,
    node_digest,
    recorded_noise,
    records,
    remember,
    results,
    runs,
    schema,
)
from tests.store.made import HOSTILE, make_evidence


def test_a_run_comes_back_as_it_was_written(where: str, make_run) -> None:
    written = [
        make_evidence(interval=(1.0, float("inf")), detail={"rows": [{"ratio": 1.5}], "ok": True}),
        make_evidence(gate="h", value=float("nan"), verdict="FAIL"),
    ]
    folder = make_run(*written, launches=[{"candidate": "c", "phase_s": {"kv": 1.5, "total": 9.0}, "log": "l"}])

    with Store(where, create=True) as store:
        assert import_run(store, folder) is Outcome.ADDED
        (run,), rows = runs(store, Filter()), results(store, Filter())
        kept = records(store, "r")
        with store.reading() as connection:
            samples = connection.execute(text("SELECT source, number, name, value FROM sample")).all()

    assert (run.name, run.green, run.total, run.verdict) == ("r", 1, 2, "FAIL")
    assert kept[0] == json.loads(written[0].model_copy(update={"run": "r"}).model_dump_json())
    assert [(row.value, row.low, row.high) for row in rows] == [(4096.0, 1.0, None), (None, None, None)]
    assert sorted(samples) == [
        ("gate", 1, "ok", 1.0), ("gate", 1, "rows[0].ratio", 1.5),
        ("launch", 1, "kv", 1.5), ("launch", 1, "total", 9.0),
    ]  # fmt: skip


def test_importing_twice_changes_nothing_and_a_run_that_grew_replaces_itself(where: str, make_run) -> None:
    cut = make_run(make_evidence(), finished=False, reports="early")
    whole = make_run(make_evidence(), make_evidence(gate="h"), reports="late")

    with Store(where, create=True) as store:
        outcomes = [import_run(store, folder) for folder in (cut, cut, whole, whole)]
        with pytest.raises(MisuseError, match="holds more of this run"):
            import_run(store, cut)
        found = runs(store, Filter())

    assert outcomes == [Outcome.ADDED, Outcome.UNCHANGED, Outcome.REPLACED, Outcome.UNCHANGED]
    assert [(run.total, run.finished is not None) for run in found] == [(2, True)]


def test_another_run_of_the_same_name_is_refused(where: str, make_run) -> None:
    first = make_run(make_evidence(), reports="a")
    second = make_run(make_evidence(), started="2026-02-02T00:00:00.000+00:00", reports="b")

    with Store(where, create=True) as store:
        import_run(store, first)
        with pytest.raises(MisuseError, match="another run of this name"):
            import_run(store, second)


def test_hostile_names_are_kept_and_found_again(where: str, make_run) -> None:
    folder = make_run(make_evidence(candidate=HOSTILE, gate=HOSTILE, metric=HOSTILE, unit=HOSTILE, reason=HOSTILE))

    with Store(where, create=True) as store:
        import_run(store, folder)
        (row,) = results(store, Filter(candidate=HOSTILE, metric=HOSTILE))
        assert len(board(store, Filter())) == 1

    assert row.candidate.startswith("<script>alert(1)</script>")
    assert "\u0000" not in row.candidate


def test_filters_let_through_what_they_name(where: str, make_run) -> None:
    old = make_run(make_evidence(), name="old", started="2025-12-31T00:00:00.000+00:00", sglang="0.5.9")
    new = make_run(make_evidence(candidate="d", verdict="FAIL"), make_evidence(suite="launch"), name="new")
    with Store(where, create=True) as store:
        for folder in (old, new):
            import_run(store, folder)

        def found(**wanted: str) -> list[tuple[str, str, str]]:
            return [(row.run, row.candidate, row.suite) for row in results(store, Filter(**wanted))]

        assert found(candidate="d") == [("new", "d", "kv")]
        assert found(verdict="FAIL") == [("new", "d", "kv")]
        assert found(stack="0.5.9") == found(stack="of-0.5.9") == [("old", "c", "kv")]
        assert found(since="2026-01-01", gate="launch/pool") == [("new", "c", "launch")]
        assert found(profile="blackwell") == []
        with pytest.raises(MisuseError, match="no such verdict"):
            found(verdict="GREEN")
        with pytest.raises(MisuseError, match="not a date"):
            found(since="yesterday")


def test_several_processes_import_at_once_into_a_new_store(where: str, make_run, tmp_path: Path) -> None:
    # Every process imports a run of its own and one that all share.
    shared = make_run(make_evidence(), name="shared")
    own = [make_run(*[make_evidence(gate=f"g{n}") for n in range(50)], name=f"own{i}") for i in range(4)]
    code = (
        "import sys; from pathlib import Path; from sglgate.store import Store, import_run\n"
        "for folder in sys.argv[2:]:\n"
        "    with Store(sys.argv[1], create=True) as store: import_run(store, Path(folder))\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", code, where, folder, shared], stderr=subprocess.PIPE, text=True)
        for folder in own
    ]
    errors = [writer.communicate(timeout=120)[1] for writer in writers]

    assert [writer.returncode for writer in writers] == [0] * 4, errors
    with Store(where) as store:
        assert sorted((run.name, run.total) for run in runs(store, Filter())) == [
            *((f"own{i}", 50) for i in range(4)),
            ("shared", 1),
        ]


def test_a_writer_killed_in_its_transaction_leaves_nothing_and_blocks_nobody(where: str, make_run) -> None:
    kept, lost = make_run(make_evidence(), name="kept"), make_run(make_evidence(), name="lost")
    code = (
        "import sys, time; from pathlib import Path; from sglgate.store import Store, importing\n"
        "whole = importing._insert\n"
        "def then_hang(*arguments):\n"
        "    whole(*arguments); print('inside', flush=True); time.sleep(60)\n"
        "importing._insert = then_hang\n"
        "with Store(sys.argv[1], create=True) as store: importing.import_run(store, Path(sys.argv[2]))\n"
    )
    with Store(where, create=True) as store:
        import_run(store, kept)
    with subprocess.Popen([sys.executable, "-c", code, where, lost], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "inside\n"
        os.kill(writer.pid, signal.SIGKILL)

    with Store(where) as store:
        assert [run.name for run in runs(store, Filter())] == ["kept"]
        assert import_run(store, lost) is Outcome.ADDED


def test_a_writer_killed_at_any_moment_leaves_whole_runs_only(make_run, tmp_path: Path) -> None:
    where = str(tmp_path / "store.sqlite")
    folders = [make_run(*[make_evidence(gate=f"g{n}") for n in range(20)], name=f"n{i}") for i in range(30)]
    code = (
        "import sys; from pathlib import Path; from sglgate.store import Store, import_run\n"
        "print('ready', flush=True)\n"
        "for folder in sys.argv[2:]:\n"
        "    with Store(sys.argv[1], create=True) as store: import_run(store, Path(folder))\n"
    )
    for delay_s in (0.0, 0.03, 0.1, 0.2):
        arguments = [sys.executable, "-c", code, where, *map(str, folders)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(delay_s)
            writer.kill()
        with Store(where, create=True) as store:
            assert {run.total for run in runs(store, Filter())} <= {20}

    with Store(where) as store:
        for folder in folders:
            import_run(store, folder)
        assert [run.total for run in runs(store, Filter())] == [20] * 30


def test_a_newer_schema_is_refused_and_left_alone(where: str, make_run) -> None:
    with Store(where, create=True) as store, store.writing() as connection:
        connection.execute(schema.VERSION.insert().values(version=len(schema.MIGRATIONS) + 1, at=""))

    with pytest.raises(MisuseError, match="a newer sglgate wrote this store"):
        Store(where)


def test_an_older_store_is_migrated_with_what_is_in_it(where: str, make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as older:
        older.setattr("sglgate.store.database.MIGRATIONS", schema.MIGRATIONS[:1])
        with Store(where, create=True) as store:
            import_run(store, make_run(make_evidence()))

    with Store(where) as store:
        assert len(results(store, Filter())) == 1
        with store.reading() as connection:
            versions = connection.execute(text("SELECT version FROM sglgate_schema ORDER BY version")).scalars().all()
    assert versions == list(range(1, len(schema.MIGRATIONS) + 1))


def test_the_migrations_lead_to_the_tables_that_are_written_down(where: str) -> None:
    with Store(where, create=True) as store, store.reading() as connection:
        for table in schema.METADATA.tables.values():
            found = {c["name"]: c["nullable"] for c in inspect(connection).get_columns(table.name)}
            written = {c.name: bool(c.nullable) for c in table.columns}
            # SQLite calls a primary key nullable where its definition does not say NOT NULL.
            keys = {c.name for c in table.primary_key.columns}
            assert found.keys() == written.keys()
            assert {n: v for n, v in found.items() if n not in keys} == {
                n: v for n, v in written.items() if n not in keys
            }


def test_a_file_that_is_no_store_is_misuse(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<html>" * 1000)

    with pytest.raises(MisuseError, match="not a store"):
        Store(str(tmp_path / "page.html"))
    with pytest.raises(MisuseError, match="no store here"):
        Store(str(tmp_path / "absent"))
    with pytest.raises(MisuseError, match="not a store"):
        Store("nosuchdatabase://host/name")
    assert not (tmp_path / "absent").exists()


def test_an_unreachable_store_is_said_without_its_password() -> None:
    with pytest.raises(StoreError) as caught:
        Store("postgresql+psycopg://someone:hunter2@/x?host=/nonexistent")

    assert "hunter2" not in str(caught.value)


def test_remembering_a_run_reports_failure_and_never_raises(make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_run(make_evidence())

    assert remember(folder) is None
    assert (folder.parent / "history.sqlite").is_file()
    monkeypatch.setenv("SGLGATE_STORE", str(folder / "run.json"))
    assert "not in the history" in str(remember(folder))


def test_a_full_disk_leaves_the_store_as_it_was(make_run, tmp_path: Path) -> None:
    where = str(tmp_path / "store.sqlite")
    with Store(where, create=True) as store:
        import_run(store, make_run(make_evidence(), name="kept"))
    big = make_run(*[make_evidence(gate=f"g{n}", reason="x" * 1000) for n in range(500)], name="big")
    code = (
        "import resource, signal, sys; from pathlib import Path; from sglgate.store import *\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
        "try:\n"
        "    with Store(sys.argv[1]) as store: import_run(store, Path(sys.argv[2]))\n"
        "except StoreError as error: print('TOLD', error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, where, big], capture_output=True, text=True, check=True)

    assert done.stdout.startswith("TOLD")
    with Store(where) as store:
        assert [run.name for run in runs(store, Filter())] == ["kept"]


def test_noise_of_a_node_is_kept_for_pooling(where: str, make_run) -> None:
    ratios = [0.01, -0.012, 0.008, -0.009]
    with Store(where, create=True) as store:
        for day in (1, 2, 3):
            at = f"2026-01-0{day}T00:00:00.000+00:00"
            record = make_evidence(at=at, stack="s", detail={AA_DETAIL: {"allreduce/65536": ratios}})
            folder = make_run(record, name=f"r{day}", started=at)
            import_run(store, folder)
            import_run(store, folder)
        node = node_digest({"cpu": "a CPU", "cores": 2})
        wanted = {"stack": "s", "profile": "cpu", "metric": "allreduce/65536"}
        history = aa_history(store, node=node, **wanted)
        elsewhere = aa_history(store, node="another", **wanted)

    assert sorted(record.log_ratio for record in history) == sorted(ratios * 3)
    assert isinstance(pool(history, now=history[-1].at, **wanted), NoisePrior)
    assert elsewhere == []


def test_a_gate_gets_the_noise_of_its_own_machine_stack_and_load_or_the_reason_why_not(make_run, tmp_path) -> None:
    reports = tmp_path / "reports"
    asked = {"node": node_digest({"cpu": "a CPU", "cores": 2}), "stack": "s", "profile": "cpu"}
    assert "no history: " in recorded_noise(reports, **asked, metrics={"chat@1": "speed"})["chat@1"].reason
    day = timedelta(days=1)
    reports.mkdir()
    with Store(str(reports / "history.sqlite"), create=True) as store:
        for back in (1, 2, 3):
            at = (datetime.now(UTC) - back * day).isoformat(timespec="milliseconds")
            ratios = [0.01, -0.012, 0.008, -0.009]
            record = make_evidence(at=at, stack="s", detail={AA_DETAIL: {"speed": ratios}})
            import_run(store, make_run(record, name=f"r{back}", started=at))

    found = recorded_noise(reports, **asked, metrics={"chat@1": "speed", "chat@4": "of another load"})

    assert isinstance(found["chat@1"], NoisePrior)
    assert isinstance(found["chat@4"], NoPrior)
    for key in asked:
        assert isinstance(recorded_noise(reports, **asked | {key: "x"}, metrics={"chat@1": "speed"})["chat@1"], NoPrior)


def test_the_command_imports_lists_and_follows(make_run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--store", str(tmp_path / "store.sqlite")]
    for month in range(1, 13):
        value = 100.0 if month < 7 else 90.0
        sglang = "0.5.9" if month < 7 else "0.5.23"
        folder = make_run(
            make_evidence(value=value + month / 100), name=f"r{month}", sglang=sglang,
            started=f"2026-{month:02}-01T00:00:00.000+00:00",
        )  # fmt: skip
        assert main(["history", "import", str(folder), *where]) == 0
    capsys.readouterr()

    assert main(["history", "trend", "--gate", "kv/pool", *where]) == 0
    assert "sglang 0.5.9 -> 0.5.23 here" in capsys.readouterr().out
    assert main(["history", "trend", "--gate", "kv/pool", "--json", *where]) == 0
    (series,) = json.loads(capsys.readouterr().out)
    assert [(change["run"], round(change["ratio"], 2)) for change in series["changes"]] == [("r7", 0.9)]
    assert main(["history", "list", "--since", "2026-11-01", "--json", *where]) == 0
    assert [run["name"] for run in json.loads(capsys.readouterr().out)] == ["r12", "r11"]
    assert main(["history", "board", *where]) == 0
    assert "r12" in capsys.readouterr().out
