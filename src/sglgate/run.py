"""One invocation: its folder, and the evidence in it, written as it happens."""

from __future__ import annotations

import datetime
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from sglgate.errors import MisuseError, SglgateError
from sglgate.evidence import Evidence
from sglgate.redact import redact_data
from sglgate.stack import write_atomically

EVIDENCE: Final = "evidence.jsonl"
RUN: Final = "run.json"


class RunInfo(BaseModel):
    """``run.json``: what was judged, by what, on what. ``finished`` stays null in a run that was cut."""

    model_config = ConfigDict(extra="forbid")

    schema_version: int = 1
    name: str
    profile: str
    sglgate: str
    started: str
    finished: str | None = None
    exit_code: int | None = None
    selection: str = ""
    #: Of a replay, what the recording says of itself: nothing in such a run was measured when it ran.
    replay: str = ""
    candidates: dict[str, dict[str, Any]] = {}
    stack: dict[str, Any] = {}
    node: dict[str, Any] = {}
    launches: list[dict[str, Any]] = []
    tests: dict[str, int] = {}


def now() -> str:
    """UTC in ISO 8601, to the millisecond."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


class Run:
    """A run that is being written.

    Args:
        reports: the folder of all runs.
        info: what is known at the start; ``name`` becomes the folder's name.
    """

    def __init__(self, reports: Path, info: RunInfo) -> None:
        self.info = info
        self.folder = reports / info.name
        self.logs = self.folder / "logs"
        try:
            self.logs.mkdir(parents=True)
        except OSError as error:
            raise SglgateError(f"the run's folder cannot be made: {self.folder}: {error.strerror}") from None
        self._fd = os.open(self.folder / EVIDENCE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.save()

    @staticmethod
    def new_name(profile: str) -> str:
        """A name that sorts by time and that two runs of one second do not share."""
        stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
        return f"{stamp}-{profile}-{secrets.token_hex(2)}"

    def save(self) -> None:
        """Write ``run.json`` anew, in one step."""
        data = redact_data(self.info.model_dump(mode="json"))
        write_atomically(self.folder / RUN, json.dumps(data, indent=1) + "\n")

    def add(self, evidence: Evidence) -> None:
        """Append one record: one write, synced, so that a kill leaves whole lines only.

        Raises:
            SglgateError: the disk is full or gone; what was written before stays whole.
        """
        # replace: half of a surrogate pair, as a cut log may hold, is no JSON that a reader accepts.
        data = redact_data(evidence.model_dump(mode="json"))
        line = (json.dumps(data, ensure_ascii=False) + "\n").encode("utf-8", "replace")
        size = os.fstat(self._fd).st_size
        try:
            written = os.write(self._fd, line)
            if written != len(line):
                raise OSError(28, "No space left on device")
            os.fsync(self._fd)
        except OSError as error:
            # Half a line would spoil the next reader: take it back.
            os.ftruncate(self._fd, size)
            raise SglgateError(f"evidence cannot be written to {self.folder / EVIDENCE}: {error.strerror}") from None

    def relative(self, path: Path) -> str:
        """``path`` as the reports name it."""
        return str(path.relative_to(self.folder))

    def close(self, exit_code: int) -> None:
        """The run is over."""
        self.info.finished, self.info.exit_code = now(), exit_code
        self.save()
        os.close(self._fd)


def read_evidence(folder: Path) -> list[Evidence]:
    """All evidence of a run; a last line that a kill cut short is left out.

    Raises:
        MisuseError: not a run's folder, or a line that is neither evidence nor the torn last one.
    """
    path = folder / EVIDENCE
    try:
        data = path.read_bytes()
    except OSError as error:
        raise MisuseError(f"not a run: {error.strerror}", file=path) from None
    return list(_parse(data, path))


def _parse(data: bytes, path: Path) -> Iterator[Evidence]:
    *lines, torn = data.split(b"\n")
    del torn  # empty after a whole line, half a record after a kill
    for number, line in enumerate(lines, 1):
        try:
            yield Evidence.model_validate_json(line)
        except ValidationError as error:
            problem = error.errors()[0]["msg"]
            raise MisuseError(f"line {number} is not evidence: {problem}", file=path) from None


def read_run(folder: Path) -> RunInfo:
    """``run.json`` of a run.

    Raises:
        MisuseError: it is absent or not one.
    """
    path = folder / RUN
    try:
        return RunInfo.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise MisuseError(f"not a run: {error.strerror}", file=path) from None
    except ValueError as error:
        raise MisuseError(f"not a run's description: {str(error).splitlines()[0]}", file=path) from None
