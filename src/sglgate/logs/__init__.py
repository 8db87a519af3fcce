"""The reader of SGLang server logs, 0.5.5 to 0.5.23: bytes in, events and a startup record out."""

from sglgate.logs.formats import Kind
from sglgate.logs.reader import LogReader
from sglgate.logs.record import (
    AllReduceLine,
    BatchStats,
    Event,
    GraphCapture,
    KvPool,
    RankRecord,
    StartupRecord,
    Summary,
    UnknownFormat,
    WeightLoad,
)

__all__ = [
    "AllReduceLine",
    "BatchStats",
    "Event",
    "GraphCapture",
    "Kind",
    "KvPool",
    "LogReader",
    "RankRecord",
    "StartupRecord",
    "Summary",
    "UnknownFormat",
    "WeightLoad",
]
