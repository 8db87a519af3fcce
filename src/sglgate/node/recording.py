"""A recorded node: a folder of what it answered, written from a live one and asked again anywhere.

    recording.json          what it is: ``about`` in prose, ``made`` live or written, and ``base``, another recording
    nvml.json  watch.json  room.json  models.json  probes/NAME.json  stack.json
    text/proc/meminfo       files of /proc and /sys, as they were
    tools/NAME.txt          what a command printed; NAME.error.txt where it could not be asked
    servers/NAME/           a candidate's launch: its phases and resolved arguments, its log, its model's config.json

With a ``base``, a JSON file is laid over the base's by the rule of RFC 7386 (null deletes) and any other file replaces
the base's: a node with one fault is the good node and a few lines.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from sglgate.errors import MisuseError
from sglgate.naming import file_name
from sglgate.node.facts import ModelFiles, Nvml, ProbeAnswer, Room, Sample, ToolOutput
from sglgate.node.nvml import NoGpuError
from sglgate.node.source import NodeSource, NotRecordedError
from sglgate.redact import redact, redact_data
from sglgate.stack import write_atomically

ABOUT: Final = "recording.json"
T = TypeVar("T")


@dataclass(frozen=True)
class About:
    """``recording.json``. ``made``: taken from a live node, or written by hand from documented formats."""

    about: str
    made: Literal["live", "written"]
    at: str = ""
    base: str | None = None


class Recorder:
    """Passes questions on to a node and keeps what it answers."""

    def __init__(self, source: NodeSource, folder: Path, about: About) -> None:
        self._source, self._folder = source, folder
        if folder.exists() and any(folder.iterdir()):
            raise MisuseError("is not empty", key="--record", value=str(folder), expected="a new folder")
        self._json(ABOUT, asdict(about))

    def nvml(self) -> Nvml:
        """The GPUs."""
        answer = self._source.nvml()
        self._json("nvml.json", asdict(answer))
        return answer

    def watch(self, count: int, interval_s: float) -> list[Sample]:
        """Samples."""
        samples = self._source.watch(count, interval_s)
        self._json("watch.json", [asdict(sample) for sample in samples])
        return samples

    def text(self, path: str) -> str | None:
        """A file of /proc or /sys."""
        answer = self._source.text(path)
        if answer is not None:
            write_atomically(self._folder / "text" / path.lstrip("/"), answer)
        return answer

    def tool(self, name: str) -> ToolOutput:
        """What a command prints."""
        answer = self._source.tool(name)
        ending, text = ("txt", answer.output) if answer.error is None else ("error.txt", answer.error)
        write_atomically(self._folder / "tools" / f"{name}.{ending}", text)
        return answer

    def room(self, place: str) -> Room | None:
        """Space in a place."""
        answer = self._source.room(place)
        self._add("room.json", place, answer)
        return answer

    def model(self, name: str) -> ModelFiles:
        """The files of a model."""
        answer = self._source.model(name)
        self._add("models.json", name, answer)
        return answer

    def probe(self, name: str, arguments: Sequence[str], deadline_s: float) -> ProbeAnswer:
        """What a probe found."""
        answer = self._source.probe(name, arguments, deadline_s)
        self._json(f"probes/{_probe_key(name, arguments)}.json", asdict(answer))
        return answer

    def stack(self, fingerprint: Mapping[str, Any]) -> None:
        """Keep what the stack is."""
        self._json("stack.json", fingerprint)

    def server(self, candidate: str, launch: Mapping[str, Any], log: Path, model: Path) -> None:
        """Keep a launch, with its log up to now and its model's config; the first of a candidate stands."""
        folder = self._folder / "servers" / file_name(candidate)
        if folder.exists():
            return
        write_atomically(folder / "launch.json", json.dumps(redact_data(launch), indent=1) + "\n")
        write_atomically(folder / "server.log", redact(log.read_text(encoding="utf-8", errors="replace")))
        with contextlib.suppress(OSError):
            write_atomically(folder / "config.json", (model / "config.json").read_text(encoding="utf-8"))

    def _add(self, file: str, key: str, value: Room | ModelFiles | None) -> None:
        path = self._folder / file
        table = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        self._json(file, {**table, key: asdict(value) if value else None})

    def _json(self, file: str, data: Any) -> None:
        write_atomically(self._folder / file, json.dumps(data, indent=1) + "\n")


@dataclass(frozen=True)
class Replay:
    """Answers from a recording.

    Args:
        folder: the recording.
    """

    folder: Path

    @property
    def about(self) -> About:
        """What the recording says of itself.

        Raises:
            MisuseError: the folder is no recording.
        """
        try:
            return TypeAdapter(About).validate_json((self.folder / ABOUT).read_text(encoding="utf-8"))
        except OSError as error:
            raise MisuseError(f"not a recording: {error.strerror}", file=self.folder / ABOUT, key="--replay") from None
        except ValidationError as error:
            problem = error.errors()[0]["msg"]
            raise MisuseError(f"not a recording: {problem}", file=self.folder / ABOUT, key="--replay") from None

    def nvml(self) -> Nvml:
        """The GPUs."""
        data = self._json("nvml.json")
        if data is None:
            raise NoGpuError("the recorded node has no GPU")
        return self._as(Nvml, data)

    def watch(self, count: int, interval_s: float) -> list[Sample]:
        """The samples that were taken; how many, and how far apart, was decided then."""
        data = self._json("watch.json")
        if data is None:
            raise NotRecordedError("the recording has no samples (watch.json)")
        return self._as(list[Sample], data)

    def text(self, path: str) -> str | None:
        """A file of /proc or /sys."""
        return self._text(f"text/{path.lstrip('/')}")

    def tool(self, name: str) -> ToolOutput:
        """What a command printed."""
        error = self._own_text(f"tools/{name}.error.txt")
        output = self._text(f"tools/{name}.txt") if error is None else ""
        if output is None and (error := self._text(f"tools/{name}.error.txt")) is None:
            raise NotRecordedError(f"the recording has no output of {name!r} (tools/{name}.txt)")
        return ToolOutput(output=output or "", error=error)

    def room(self, place: str) -> Room | None:
        """Space in a place of the recorded node."""
        data = self._key("room.json", place)
        return None if data is None else self._as(Room, data)

    def model(self, name: str) -> ModelFiles:
        """The files of a model."""
        return self._as(ModelFiles, self._key("models.json", name))

    def probe(self, name: str, arguments: Sequence[str], deadline_s: float) -> ProbeAnswer:
        """What a probe found then."""
        file = f"probes/{_probe_key(name, arguments)}.json"
        data = self._json(file)
        if data is None:
            raise NotRecordedError(f"the recording has no answer of the probe {name!r} ({file})")
        return self._as(ProbeAnswer, data)

    def stack(self) -> dict[str, Any]:
        """The fingerprint of the stack that was there."""
        return self._json("stack.json") or {}

    def server(self, candidate: str) -> Path | None:
        """The folder of a candidate's launch, or None where none was recorded."""
        folders = (folder / "servers" / file_name(candidate) for folder in self._chain())
        return next((folder for folder in folders if folder.is_dir()), None)

    def _chain(self) -> list[Path]:
        """This recording's folder and those that it is laid over, nearest first."""
        chain = [self.folder]
        while (base := Replay(chain[-1]).about.base) is not None:
            folder = (chain[-1] / base).resolve()
            if folder in chain:
                raise MisuseError("a cycle", file=chain[-1] / ABOUT, key="base", value=base)
            chain.append(folder)
        return chain

    def _own_text(self, file: str) -> str | None:
        try:
            return (self.folder / file).read_text(encoding="utf-8")
        except OSError:
            return None

    def _text(self, file: str) -> str | None:
        found = (Replay(folder)._own_text(file) for folder in self._chain())
        return next((text for text in found if text is not None), None)

    def _json(self, file: str) -> Any:
        merged: Any = None
        for folder in reversed(self._chain()):
            text = Replay(folder)._own_text(file)
            if text is None:
                continue
            try:
                data = json.loads(text)
            except ValueError as error:
                raise MisuseError(f"no JSON: {error}", file=folder / file, key="--replay") from None
            # The lowest layer is an answer, in which null is a value; what lies over it is a patch.
            merged = data if merged is None else _laid_over(merged, data)
        return merged

    def _key(self, file: str, key: str) -> Any:
        table = self._json(file) or {}
        if key not in table:
            raise NotRecordedError(f"the recording has no answer for {key!r} ({file})")
        return table[key]

    def _as(self, kind: type[T], data: Any) -> T:
        try:
            # Not at the top: to build one costs milliseconds, and only a replay needs it.
            return TypeAdapter(kind).validate_python(data)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise MisuseError(f"{where}: {first['msg']}", file=self.folder, key="--replay") from None


def _probe_key(name: str, arguments: Sequence[str]) -> str:
    """A probe with its arguments as a file name: ``collectives-ranks-8-device-cuda``."""
    return "-".join([name, *(argument.lstrip("-") for argument in arguments)])


def _laid_over(below: Any, above: Any) -> Any:
    """RFC 7386, JSON Merge Patch."""
    if not isinstance(above, dict):
        return above
    merged = dict(below) if isinstance(below, dict) else {}
    for key, value in above.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _laid_over(merged.get(key), value)
    return merged
