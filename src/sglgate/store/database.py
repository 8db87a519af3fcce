"""Open the store: one SQLite file for a machine, or a PostgreSQL database for a fleet, by URL.

SQLite: write-ahead log, so that readers and a writer do not wait for each other and a kill leaves whole
transactions; a writer waits up to 30 s for another. PostgreSQL: writers take one advisory lock, so that both
databases have one writer at a time and importing needs no other precaution.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from sglgate.errors import MisuseError, SglgateError
from sglgate.store.schema import MIGRATIONS, VERSION, migrate

ENVIRONMENT: Final = "SGLGATE_STORE"
FILE: Final = "history.sqlite"
_WAIT_S: Final = 30
_PG_LOCK: Final = 0x5347_4C47


class StoreError(SglgateError):
    """The store cannot be read or written now; nothing of the attempt is in it."""


def default_store(reports: Path) -> str:
    """``SGLGATE_STORE``, else ``history.sqlite`` beside the runs."""
    return os.environ.get(ENVIRONMENT) or str(reports / FILE)


class Store:
    """An open store. Use it as a context manager.

    Args:
        where: a file name, or a URL (``postgresql+psycopg://host/database``).
        create: make the SQLite file where it is absent; a reader of a mistyped name must not.

    Raises:
        MisuseError: no such file, not a store, or one that a newer sglgate wrote.
        StoreError: it cannot be reached.
    """

    def __init__(self, where: str, *, create: bool = False) -> None:
        is_url = "://" in where
        if not is_url and not create and not Path(where).is_file():
            raise MisuseError(
                "no store here",
                file=where,
                expected="import a run first: sglgate history import reports/RUN",
            )
        try:
            url = make_url(where) if is_url else URL.create("sqlite", database=where)
            # A password must not reach an error message.
            self.where = url.render_as_string(hide_password=True) if is_url else where
            self._engine = _engine(url)
        except (ArgumentError, NoSuchModuleError, ImportError) as error:
            raise MisuseError(
                f"not a store: {error}", key="store", expected="a file name, or postgresql+psycopg://host/database"
            ) from None
        try:
            self._migrate()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent view.

        Raises:
            StoreError: the database does not answer.
        """
        with _told(self.where), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction, and no other writer meanwhile; an exception leaves the store as it was.

        Raises:
            StoreError: disk full, locked for over 30 s, gone.
        """
        engine = self._engine.execution_options(writing=True)
        with _told(self.where), engine.connect() as connection, connection.begin():
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _PG_LOCK})
            yield connection

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _migrate(self) -> None:
        with self.reading() as connection:
            found = _version(connection)
        if found < len(MIGRATIONS):
            with self.writing() as connection:
                # Asked again: another process may have done it between the two.
                for number in range(_version(connection) + 1, len(MIGRATIONS) + 1):
                    migrate(connection, number)
        elif found > len(MIGRATIONS):
            raise MisuseError(
                f"a newer sglgate wrote this store (schema {found}, this one knows {len(MIGRATIONS)})",
                file=self.where,
                expected="use that sglgate, or another store",
            )


def _version(connection: Connection) -> int:
    if not inspect(connection).has_table(VERSION.name):
        return 0
    return connection.execute(select(VERSION.c.version).order_by(VERSION.c.version.desc())).scalar() or 0


@contextmanager
def _told(where: str) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        reason = str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else type(error.orig).__name__
        if isinstance(error.orig, sqlite3.DatabaseError) and "not a database" in reason:
            raise MisuseError("not a store", file=where, expected="a file that sglgate made") from None
        raise StoreError(f"store {where}: {reason}") from None


def _engine(url: URL) -> Engine:
    engine = create_engine(url)
    if engine.dialect.name != "sqlite":
        return engine

    @event.listens_for(engine, "connect")
    def _connected(raw: sqlite3.Connection, _: Any) -> None:
        # Python would open transactions by itself, and as readers: two of them that then write lock each other out.
        raw.isolation_level = None
        raw.execute(f"PRAGMA busy_timeout = {_WAIT_S * 1000}")
        raw.execute("PRAGMA foreign_keys = ON")
        _use_wal(raw)

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        writing = connection.get_execution_options().get("writing")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


def _use_wal(raw: sqlite3.Connection) -> None:
    """Switching a new file needs it alone, and SQLite does not wait for that by itself."""
    deadline = time.monotonic() + _WAIT_S
    while raw.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            raw.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
