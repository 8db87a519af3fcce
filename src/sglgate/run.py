"""One invocation: its folder, and the evidence in it, written as it happens."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
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
TESTS: Final = "tests.jsonl"
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
    #: The release that served when this one was judged, if speed was held against it.
    against: dict[str, Any] = {}
    node: dict[str, Any] = {}
    launches: list[dict[str, Any]] = []
    #: Candidates that this stack cannot launch, and why.
    left_out: dict[str, str] = {}
    #: Each time the run was taken up again: when, and how many tests were judged before.
    resumed: list[dict[str, Any]] = []
    tests: dict[str, int] = {}


def now() -> str:
    """UTC in ISO 8601, to the millisecond."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


class Run:
    """A run that is being written, by one process or by several.

    Args:
        folder: its folder, there already.
        info: what is known of it.
    """

    def __init__(self, folder: Path, info: RunInfo) -> None:
        self.info, self.folder, self.logs = info, folder, folder / "logs"
        self._fd = os.open(folder / EVIDENCE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    @classmethod
    def begin(cls, reports: Path, info: RunInfo) -> Run:
        """A new run, in a folder of its own in ``reports``."""
        folder = reports / info.name
        try:
            (folder / "logs").mkdir(parents=True)
        except OSError as error:
            raise SglgateError(f"the run's folder cannot be made: {folder}: {error.strerror}") from None
        run = cls(folder, info)
        run.save()
        return run

    @classmethod
    def join(cls, folder: Path) -> Run:
        """A run that another process has begun."""
        return cls(folder, read_run(folder))

    @staticmethod
    def new_name(profile: str) -> str:
        """A name that sorts by time and that two runs of one second do not share."""
        stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
        return f"{stamp}-{profile}-{secrets.token_hex(2)}"

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """While several processes write one run: one at a time."""
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def note_launch(self, launch: dict[str, Any]) -> None:
        """Add one launch to ``run.json``."""
        with self._alone():
            self.info.launches = [*read_run(self.folder).launches, launch]
            self.save()

    def note_test(self, test: str, duration_s: float) -> None:
        """A test has ended; one without such a line was cut.

        Raises:
            SglgateError: the disk is full or gone.
        """
        try:
            with self._alone(), (self.folder / TESTS).open("a", encoding="utf-8") as file:
                file.write(ended_line(test, duration_s))
        except OSError as error:
            raise SglgateError(f"cannot be written: {self.folder / TESTS}: {error.strerror}") from None

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
        with self._alone():
            size = os.fstat(self._fd).st_size
            try:
                written = os.write(self._fd, line)
                if written != len(line):
                    raise OSError(28, "No space left on device")
                os.fsync(self._fd)
            except OSError as error:
                # Half a line would spoil the next reader: take it back.
                os.ftruncate(self._fd, size)
                file = self.folder / EVIDENCE
                raise SglgateError(f"evidence cannot be written to {file}: {error.strerror}") from None

    def relative(self, path: Path) -> str:
        """``path`` as the reports name it."""
        return str(path.relative_to(self.folder))

    def close(self, exit_code: int) -> None:
        """The run is over."""
        with self._alone():
            self.info.launches = read_run(self.folder).launches
            self.info.finished, self.info.exit_code = now(), exit_code
            self.save()
        self.leave()

    def leave(self) -> None:
        """This process writes no more; others may."""
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


def ended_line(test: str, duration_s: float) -> str:
    """A test that has ended, as ``tests.jsonl`` keeps it."""
    return json.dumps({"test": test, "duration_s": round(duration_s, 3)}) + "\n"


def read_tests(folder: Path) -> dict[str, float]:
    """Seconds that each test took which has ended, set-up included; a torn last line is left out."""
    path = folder / TESTS
    try:
        *lines, _ = path.read_text(encoding="utf-8").split("\n")
        records = [json.loads(line) for line in lines]
        return {record["test"]: float(record["duration_s"]) for record in records}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MisuseError(f"not a list of ended tests: {error}", file=path) from None


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
