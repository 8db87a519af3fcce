"""Diagnose a log: the one public door of this package."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final

from sglgate.diagnosis import remedies, subject, words
from sglgate.diagnosis.context import Context, is_remark_of_hanging, parse_context
from sglgate.diagnosis.decide import Verdict, decide, tells_of_failure
from sglgate.diagnosis.incident import Incident
from sglgate.diagnosis.model import Diagnosis, EvidenceLine, Outcome
from sglgate.diagnosis.needles import NEEDLES
from sglgate.diagnosis.order import MAX_REVERSED_BYTES, is_reversed, turn
from sglgate.errors import MisuseError
from sglgate.logs import Event, Kind, LogReader, StartupRecord
from sglgate.logs.lines import Line, split_records

_CHUNK_BYTES: Final = 1 << 20
_TAIL_BYTES: Final = 2048
_ANSWERED: Final = re.compile(rb'"POST /\S+ HTTP/1\.\d" 200')


class Diagnoser:
    """Reads a log as it arrives; :meth:`diagnosis` at any time says what it means so far.

    Several launches in one log (a container that restarts) are judged one by one; the last one that says
    anything counts.
    """

    def __init__(self) -> None:
        self.reader = LogReader(NEEDLES, batch_events=False)
        self.incident = Incident()
        self._record: StartupRecord = self.reader.record
        self._earlier: tuple[Incident, StartupRecord] | None = None
        self._launches = 1
        self._tail = b""
        self._head = b""

    def feed(self, data: bytes) -> None:
        """The next bytes of the log."""
        if len(self._head) < subject.KEPT_BYTES:
            self._head = (self._head + data[: subject.KEPT_BYTES])[: subject.KEPT_BYTES]
        self._tail = (self._tail + data[-_TAIL_BYTES:])[-_TAIL_BYTES:]
        for line, event in self.reader.read(data):
            self._add(line, event)

    def close(self) -> None:
        """The end of the log."""
        for line, event in self.reader.read_rest():
            self._add(line, event)
        # People end a log that they cut out of a hanging server with a remark.
        remarks = [line for raw in self._tail.splitlines()[-3:] for line in split_records(0, raw, "")]
        self.incident.served = self.incident.served or _ANSWERED.search(self._tail) is not None
        if self._launches == 1:
            excerpt = self._excerpt()
            self.incident.look_over(excerpt)
            for at, line in enumerate(excerpt):
                self.incident.tell(line, self.reader.record, first=at == 0)
        self.incident.close(self.reader.record)
        self.incident.noted_hang = any(not line.stamped and is_remark_of_hanging(line.text) for line in remarks)

    def _add(self, line: Line, event: Event | None) -> None:
        record = self.reader.record
        if record is not self._record:
            self._earlier = (self.incident, self._record)
            self.incident, self._record = Incident(), record
            self._launches += 1
        self.incident.last = (line.number, line.text)
        if event is None or event.kind in (Kind.FATAL, Kind.ALLREDUCE, Kind.WEIGHTS_PROGRESS, Kind.VERSION):
            self.incident.add(line, record)

    def diagnosis(self, file: str, context: Context | None = None) -> Diagnosis:
        """The answer; ``file`` is only repeated in it."""
        context = context or Context()
        record, incident = self.reader.record, self.incident
        verdict = decide(incident, record, context)
        if verdict.cause == "unknown" and self._earlier is not None:
            before = decide(*self._earlier, context)
            if before.cause not in ("unknown", "none"):
                verdict, (incident, record) = before, self._earlier
        if verdict.cause == "unknown" and context.text:
            verdict = _from_context(verdict, context, record)
        if verdict.cause == "unknown":
            verdict = self._by_subject(verdict)
        change, avoid, figures = remedies.remedy(verdict, incident, record, context)
        found = words.facts(verdict, incident, record, self._launches) | figures
        return Diagnosis(
            file,
            verdict.outcome,
            str(verdict.phase),
            verdict.cause,
            verdict.confidence,
            words.evidence(verdict, incident, record),
            change,
            avoid,
            found,
        )

    def _excerpt(self) -> list[Line]:
        """The lines of the log's head, but for empty ones: all of it, where somebody pasted an excerpt."""
        raws = enumerate(self._head.splitlines(), 1)
        return [line for at, raw in raws if raw.strip(b" `\r") for line in split_records(at, raw, "")]

    def _by_subject(self, verdict: Verdict) -> Verdict:
        """The last resort: what a report of a failure is about, if that is clear."""
        if not tells_of_failure(verdict, self.incident, self._launches):
            return verdict
        about = subject.clear(subject.weigh((line.number, line.text, line.stamped) for line in self._excerpt()))
        if about is None:
            return verdict
        outcome: Outcome = "hung" if about.cause in ("watchdog_hang", "p2p_iommu_hang") else "failed"
        return replace(verdict, outcome=outcome, cause=about.cause, confidence="likely", subject=about)


def _from_context(verdict: Verdict, context: Context, record: StartupRecord) -> Verdict:
    """What the log leaves open, the kernel's log or a note beside it may say; never more than likely."""
    beside = Incident()
    for text in context.text.splitlines():
        beside.add(Line(0, "", None, text, stamped=True), record)
    found = decide(beside, StartupRecord(), Context())
    if found.hit is None or found.cause in ("unknown", "none"):
        return verdict
    return Verdict(
        verdict.outcome if verdict.outcome == "hung" else "failed",
        verdict.phase,
        found.cause,
        "likely",
        hit=found.hit,
    )


def diagnose_chunks(
    chunks: Iterable[bytes], file: str = "-", context: Context | Mapping[str, Any] | str | None = None
) -> Diagnosis:
    """Diagnose a log that arrives in pieces of any size.

    A log whose newest line comes first is turned round, if it is small enough to be held in memory.
    """
    known = context if isinstance(context, Context) else parse_context(context)
    stream = iter(chunks)
    head = next(stream, b"")
    if is_reversed(head):
        held, complete = _hold(head, stream)
        if complete:
            return _diagnose_reversed(held, file, known)
        head = held
    diagnoser = Diagnoser()
    for chunk in chain([head], stream):
        diagnoser.feed(chunk)
    diagnoser.close()
    return diagnoser.diagnosis(file, known)


def _hold(head: bytes, stream: Iterator[bytes]) -> tuple[bytes, bool]:
    pieces, size = [head], len(head)
    for chunk in stream:
        pieces.append(chunk)
        size += len(chunk)
        if size > MAX_REVERSED_BYTES:
            return b"".join(pieces), False
    return b"".join(pieces), True


def _diagnose_reversed(data: bytes, file: str, context: Context) -> Diagnosis:
    ordered, lines = turn(data)
    diagnoser = Diagnoser()
    diagnoser.feed(ordered)
    diagnoser.close()
    answer = diagnoser.diagnosis(file, context)
    evidence = tuple(EvidenceLine(lines + 1 - item.line, item.text) if item.line else item for item in answer.evidence)
    return replace(answer, evidence=evidence, facts={**answer.facts, "reversed": True})


def diagnose_text(
    text: str | bytes, file: str = "-", context: Context | Mapping[str, Any] | str | None = None
) -> Diagnosis:
    """Diagnose a log that is in memory."""
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return diagnose_chunks([data], file, context)


def diagnose_file(path: str | Path, context: Context | Mapping[str, Any] | str | None = None) -> Diagnosis:
    """Diagnose a file of any size; ``-`` is standard input. MisuseError where it cannot be read."""
    if str(path) == "-":
        return diagnose_chunks(_chunks(sys.stdin.buffer), "-", context)
    try:
        with Path(path).open("rb") as stream:
            return diagnose_chunks(_chunks(stream), str(path), context)
    except OSError as error:
        raise MisuseError(f"cannot read the log: {error.strerror}", file=path) from None


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK_BYTES):
        yield chunk
