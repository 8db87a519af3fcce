"""Runs to import, and the two databases to import them into."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sglgate.evidence import Evidence
from sglgate.run import Run, RunInfo

POSTGRES_BIN = Path("/usr/lib/postgresql")


@pytest.fixture(autouse=True)
def _own_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SGLGATE_STORE", raising=False)


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Writes a run's folder; its evidence is what is passed."""

    def make(
        *records: Evidence,
        name: str = "r",
        started: str = "2026-01-01T00:00:00.000+00:00",
        finished: bool = True,
        sglang: str = "0.5.23",
        reports: str = "reports",
        launches: list[dict[str, object]] | None = None,
    ) -> Path:
        info = RunInfo(
            name=name, profile="cpu", sglgate="0", started=started, launches=launches or [],
            stack={"digest": f"of-{sglang}", "packages": {"sglang": sglang}}, node={"cpu": "a CPU", "cores": 2},
        )  # fmt: skip
        run = Run.begin(tmp_path / reports, info)
        for record in records:
            run.add(record.model_copy(update={"run": name}))
        if finished:
            run.close(0)
        return run.folder

    return make


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """URL of a PostgreSQL server that lives as long as the tests; on a socket in a folder of its own, no port."""
    tools = sorted(POSTGRES_BIN.glob("*/bin"))
    assert tools, "no PostgreSQL server: apt-get install postgresql"
    # The server refuses to run as root, and a socket's path may have 107 bytes only.
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    if user:
        shutil.chown(folder, "postgres")
    quiet = {"check": True, "capture_output": True, "cwd": folder}
    subprocess.run([*user, tools[-1] / "initdb", "-D", folder / "data", "-U", "postgres", "-A", "trust"], **quiet)
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [*user, tools[-1] / "postgres", "-D", folder / "data", "-c", "listen_addresses=", "-k", folder, "-F"],
            stdout=subprocess.DEVNULL, stderr=log, cwd=folder,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while subprocess.run([tools[-1] / "pg_isready", "-q", "-h", folder], check=False).returncode != 0:
            assert server.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.1)
        yield f"postgresql+psycopg://postgres@/postgres?host={folder}"
    finally:
        server.terminate()
        server.wait(30)
        shutil.rmtree(folder)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store's name, on both databases."""
    if request.param == "sqlite":
        return str(tmp_path / "history ?#.sqlite")
    url = request.getfixturevalue("postgres")
    from sqlalchemy import create_engine, text

    name = f"t{time.monotonic_ns()}"
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return url.replace("/postgres?", f"/{name}?")
