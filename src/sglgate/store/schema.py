"""The tables, and how an older database becomes a newer one.

``run`` 1-n ``launch`` and ``gate`` (one record of evidence); ``sample`` holds every number inside a record's detail
or a launch's phases, so that it can be followed over time. ``pin`` (baselines) and ``aa`` (noise of a node) are only
ever added to. Rows are found by (run, number): the number of the line in ``evidence.jsonl``.
"""

from __future__ import annotations

import hashlib
from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from sglgate.naming import xml_text
from sglgate.run import now


class SafeText(TypeDecorator[str]):
    """Text from logs and files: PostgreSQL takes no NUL and neither database a lone surrogate, so both are escaped.

    Values to compare with go the same way, so that a hostile name is found again.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """As it is stored."""
        return None if value is None else xml_text(value)


METADATA: Final = MetaData()
_KEY: Final = String(16)

VERSION = Table("sglgate_schema", METADATA, Column("version", Integer, primary_key=True), Column("at", SafeText))

RUN = Table(
    "run",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("name", String(255), nullable=False, unique=True),
    Column("content", String(64), nullable=False, comment="SHA-256 of what was imported"),
    Column("profile", SafeText, nullable=False),
    Column("stack", SafeText, nullable=False),
    Column("sglang", SafeText, nullable=False),
    Column("node", String(12), nullable=False, comment="digest of the machine's description"),
    Column("started", SafeText, nullable=False),
    Column("finished", SafeText, comment="null: the run was cut"),
    Column("exit_code", Integer),
    Column("verdict", SafeText, comment="the worst of its gates; null where nothing was judged"),
    Column("description", Text, nullable=False, comment="run.json without its launches"),
)
LAUNCH = Table(
    "launch",
    METADATA,
    Column("run_id", ForeignKey("run.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("candidate", SafeText, nullable=False),
    Column("ready_s", Double),
    Column("record", Text, nullable=False, comment="as in run.json: log, argv, resolved arguments"),
)
GATE = Table(
    "gate",
    METADATA,
    Column("run_id", ForeignKey("run.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("series", _KEY, nullable=False, comment="what makes two records comparable, see series_key"),
    Column("at", SafeText, nullable=False),
    Column("candidate", SafeText, nullable=False),
    Column("suite", SafeText, nullable=False),
    Column("gate", SafeText, nullable=False),
    Column("verdict", String(16), nullable=False),
    Column("metric", SafeText, nullable=False),
    Column("value", Double, comment="null where it is no finite number"),
    Column("low", Double),
    Column("high", Double),
    Column("unit", SafeText, nullable=False),
    Column("record", Text, nullable=False, comment="the whole line of evidence.jsonl"),
)
SAMPLE = Table(
    "sample",
    METADATA,
    Column("run_id", ForeignKey("run.id"), primary_key=True),
    Column("source", String(6), primary_key=True, comment="gate or launch"),
    Column("number", Integer, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("name", SafeText, nullable=False, comment="path inside the record: rows[3].ratio"),
    Column("value", Double, nullable=False),
)
PIN = Table(
    "pin",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("series", _KEY, nullable=False),
    Column("at", SafeText, nullable=False),
    Column("who", SafeText, nullable=False),
    Column("why", SafeText, nullable=False),
    Column("run", String(255), nullable=False),
    Column("profile", SafeText, nullable=False),
    Column("candidate", SafeText, nullable=False),
    Column("suite", SafeText, nullable=False),
    Column("gate", SafeText, nullable=False),
    Column("metric", SafeText, nullable=False),
    Column("unit", SafeText, nullable=False),
    Column("value", Double, nullable=False),
    Column("low", Double),
    Column("high", Double),
    Column("before", Double, comment="the value that it replaced"),
)
AA = Table(
    "aa",
    METADATA,
    Column("key", String(64), primary_key=True, comment="SHA-256 of the record: the same block is kept once"),
    Column("at_us", BigInteger, nullable=False, comment="microseconds since 1970, UTC"),
    Column("session", SafeText, nullable=False),
    Column("node", String(12), nullable=False),
    Column("stack", SafeText, nullable=False),
    Column("profile", SafeText, nullable=False),
    Column("metric", SafeText, nullable=False),
    Column("log_ratio", Double, nullable=False),
)


def series_key(profile: str, candidate: str, suite: str, gate: str, metric: str) -> str:
    """16 hex digits for one metric of one gate of one candidate: names may be longer than an index takes."""
    text = "\x1f".join(xml_text(part) for part in (profile, candidate, suite, gate, metric))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


#: Frozen text, not the tables above: those are what the newest schema is, and a test holds the two against each other.
#: A database of version n has had the first n applied; none is ever edited once released. ``{id}`` numbers its rows.
MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        "CREATE TABLE run (id {id}, name VARCHAR(255) NOT NULL UNIQUE, content VARCHAR(64) NOT NULL, "
        "profile TEXT NOT NULL, stack TEXT NOT NULL, sglang TEXT NOT NULL, node VARCHAR(12) NOT NULL, "
        "started TEXT NOT NULL, finished TEXT, exit_code INTEGER, verdict TEXT, description TEXT NOT NULL)",
        "CREATE TABLE launch (run_id INTEGER NOT NULL REFERENCES run (id), number INTEGER NOT NULL, "
        "candidate TEXT NOT NULL, ready_s DOUBLE PRECISION, record TEXT NOT NULL, PRIMARY KEY (run_id, number))",
        "CREATE TABLE gate (run_id INTEGER NOT NULL REFERENCES run (id), number INTEGER NOT NULL, "
        "series VARCHAR(16) NOT NULL, at TEXT NOT NULL, candidate TEXT NOT NULL, suite TEXT NOT NULL, "
        "gate TEXT NOT NULL, verdict VARCHAR(16) NOT NULL, metric TEXT NOT NULL, value DOUBLE PRECISION, "
        "low DOUBLE PRECISION, high DOUBLE PRECISION, unit TEXT NOT NULL, record TEXT NOT NULL, "
        "PRIMARY KEY (run_id, number))",
        "CREATE TABLE sample (run_id INTEGER NOT NULL REFERENCES run (id), source VARCHAR(6) NOT NULL, "
        "number INTEGER NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL, value DOUBLE PRECISION NOT NULL, "
        "PRIMARY KEY (run_id, source, number, position))",
        "CREATE TABLE pin (id {id}, series VARCHAR(16) NOT NULL, at TEXT NOT NULL, who TEXT NOT NULL, "
        "why TEXT NOT NULL, run VARCHAR(255) NOT NULL, profile TEXT NOT NULL, candidate TEXT NOT NULL, "
        "suite TEXT NOT NULL, gate TEXT NOT NULL, metric TEXT NOT NULL, unit TEXT NOT NULL, "
        "value DOUBLE PRECISION NOT NULL, low DOUBLE PRECISION, high DOUBLE PRECISION, before DOUBLE PRECISION)",
        "CREATE TABLE aa (key VARCHAR(64) PRIMARY KEY, at_us BIGINT NOT NULL, session TEXT NOT NULL, "
        "node VARCHAR(12) NOT NULL, stack TEXT NOT NULL, profile TEXT NOT NULL, metric TEXT NOT NULL, "
        "log_ratio DOUBLE PRECISION NOT NULL)",
    ),
    # 100,000 results: a trend took a scan of the table.
    ("CREATE INDEX gate_series ON gate (series)", "CREATE INDEX pin_series ON pin (series)"),
)


def migrate(connection: Connection, number: int) -> None:
    """Apply one migration, counted from 1, and write down that it was."""
    row_id = "SERIAL PRIMARY KEY" if connection.dialect.name == "postgresql" else "INTEGER PRIMARY KEY"
    VERSION.create(connection, checkfirst=True)
    for statement in MIGRATIONS[number - 1]:
        connection.exec_driver_sql(statement.format(id=row_id))
    connection.execute(VERSION.insert().values(version=number, at=now()))
