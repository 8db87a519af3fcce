"""One server configuration to judge: what to launch, and what is expected of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, field_validator

from sglgate.config.eagle3 import Eagle3Need
from sglgate.config.profile import ArgumentValue, Name, Profile, _Strict
from sglgate.config.toml_files import read_toml, validate
from sglgate.errors import MisuseError, nearest

MATRIX_CAP: Final = 64
Suite = Literal["launch", "kv", "allreduce", "eagle3"]
SUITES_HELP: Final = "the suites that judge it; absent: all that apply"
#: The suite owns these: a candidate that sets one would be judged at another address than it was launched at.
RESERVED_ARGUMENTS: Final = {"model-path", "model", "host", "port", "config"}


class ExpectedFailure(_Strict):
    """A launch that must fail, and for this cause only."""

    cause: str = Field(description="a cause that `sglgate diagnose` knows")
    reason: str = Field(min_length=1, description="why it cannot work here")
    link: str = Field(min_length=1, description="where that is documented")

    @field_validator("cause")
    @classmethod
    def _known(cls, cause: str) -> str:
        # Deferred: only a candidate that expects a failure needs the table of causes.
        from sglgate.diagnosis import KNOWN_CAUSES

        # "unknown" would accept every crash that nobody has seen yet.
        usable = sorted(set(KNOWN_CAUSES) - {"none", "unknown"})
        if cause not in usable:
            near = nearest(cause, usable)
            raise ValueError(f"no such cause; did you mean {near!r}?" if near else f"one of {', '.join(usable)}")
        return cause


class KvNeed(_Strict):
    """What the KV pool must hold."""

    min_tokens: int | None = Field(default=None, gt=0, description="tokens on every rank")
    requests: int | None = Field(default=None, gt=0, description="requests that must fit together")
    request_tokens: int | None = Field(default=None, gt=0, description="tokens of each such request")
    answers: dict[str, str] = Field(
        default={}, description='prompt = text that its greedy answer must contain, such as "Paris"'
    )
    fill: float = Field(default=0.9, ge=0, lt=1, description="share of the pool to fill with requests; 0 for none")
    relaunch: bool = Field(default=False, description="launch it twice: both pools must agree")
    window_margin: float | None = Field(
        default=None, gt=0, lt=0.2, description="launch it this far below and above the smallest fraction that works"
    )
    fill_deadline_s: float = Field(default=300, gt=0, description="how long the filling may take, seconds")


class AllreducePath(_Strict):
    """Which all-reduce path must serve."""

    path: str = Field(description="nccl, custom_v1, custom_v2, pcie_ipc, gloo, shm, ...")
    margin: float = Field(default=0.03, gt=0, lt=1, description="what still counts as no slower")
    also_ranks: list[int] = Field(default=[], description="further world sizes to try, outside a server")


class Expect(_Strict):
    """All that is expected of a candidate; suites read the part that is theirs."""

    failure: ExpectedFailure | None = None
    kv: KvNeed = KvNeed()
    allreduce: AllreducePath | None = None
    eagle3: Eagle3Need | None = None


class Candidate(_Strict):
    """A candidate as it will be launched: inheritance and matrix resolved, profile's share merged in."""

    name: Name
    profile: Name
    file: str = Field(description="the TOML file it comes from")
    extends: Name | None = Field(default=None, description="the candidate whose arguments it began with")
    reason: str = Field(min_length=1, description="why it is judged, in prose")
    model: str = Field(min_length=1, description="a recipe of fixtures/models, a folder, or a hub id")
    suites: list[Suite] | None = Field(default=None, description=SUITES_HELP)
    arguments: dict[str, ArgumentValue] = Field(default={}, description="server arguments without the dashes")
    environment: dict[str, str] = Field(default={}, description="environment of the server")
    expect: Expect = Expect()

    @field_validator("arguments")
    @classmethod
    def _no_reserved(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        for key in arguments:
            if key.startswith("-") or "_" in key:
                right = key.strip("-").replace("_", "-")
                raise ValueError(f"argument {key!r}: write it as {right!r}")
            if key in RESERVED_ARGUMENTS:
                raise ValueError(f"argument {key!r} belongs to the suite")
        return arguments

    @property
    def tensor_parallel(self) -> int:
        """World size of the tensor-parallel group."""
        return self._width("tp", "tp-size", "tensor-parallel-size")

    @property
    def gpus(self) -> int:
        """How many GPUs its server occupies: tensor times pipeline width, times copies by plain data parallelism."""
        size = self.tensor_parallel * self._width("pp", "pp-size", "pipeline-parallel-size")
        copies = 1 if self.arguments.get("enable-dp-attention") else self._width("dp", "dp-size", "data-parallel-size")
        return size * copies

    def _width(self, *names: str) -> int:
        found = next((self.arguments[name] for name in names if name in self.arguments), 1)
        return int(found) if isinstance(found, int) else 1

    def command_line(self) -> list[str]:
        """The server arguments as argv; ``true`` is a bare flag, ``false`` leaves the flag out."""
        argv: list[str] = []
        for key, value in self.arguments.items():
            if value is False:
                continue
            argv.append(f"--{key}")
            if isinstance(value, list):
                argv.extend(str(item) for item in value)
            elif value is not True:
                argv.append(str(value))
        return argv


class _File(_Strict):
    """A candidate as it stands in its file: every key may come from the one that it extends."""

    name: Name = Field(description="the file's name without .toml")
    extends: Name | None = Field(default=None, description="another candidate of the same folder")
    abstract: bool = Field(default=False, description="only there to be extended; never launched")
    reason: str | None = Field(default=None, min_length=1, description="why it is judged, in prose")
    model: str | None = Field(default=None, min_length=1, description="a recipe, a folder or a hub id")
    suites: list[Suite] | None = Field(default=None, description=SUITES_HELP)
    arguments: dict[str, ArgumentValue] = Field(default={}, description="server arguments without the dashes")
    environment: dict[str, str] = Field(default={}, description="NAME = text")
    expect: Expect = Expect()
    matrix: dict[str, list[ArgumentValue]] = Field(default={}, description='"arguments.page-size" = [1, 16]')


def load_candidates(folder: Path, profile: Profile) -> list[Candidate]:
    """Every candidate of one profile, in the order of their files, inheritance and matrices resolved.

    Raises:
        MisuseError: unknown keys, wrong types, a cycle, an unknown parent, a matrix beyond 64 candidates,
            or two candidates of one name.
    """
    raw: dict[str, tuple[Path, dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.toml")):
        data = read_toml(path)
        name = validate(_File, data, path).name
        if name != path.stem:
            raise MisuseError("must equal the file's name", file=path, key="name", value=name)
        raw[name] = (path, data)
    if not raw:
        raise MisuseError("no candidate found", file=folder, expected="at least one *.toml")

    found: dict[str, Candidate] = {}
    for name, (path, data) in raw.items():
        if data.get("abstract"):
            continue
        for candidate in _expand(_inherit(name, raw), path, profile):
            if candidate.name in found:
                raise MisuseError(f"{candidate.name!r} is also in {found[candidate.name].file}", file=path)
            found[candidate.name] = candidate
    return list(found.values())


def select(candidates: Iterable[Candidate], names: Iterable[str]) -> list[Candidate]:
    """Those named, in the given order of candidates; all of them where no name is given.

    Raises:
        MisuseError: a name that no candidate bears.
    """
    candidates, wanted = list(candidates), list(names)
    known = {c.name for c in candidates}
    for name in wanted:
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near!r}?" if near else f"known: {', '.join(sorted(known))}"
            raise MisuseError("no such candidate", key="--candidate", value=name, expected=hint)
    return [c for c in candidates if not wanted or c.name in wanted]


def fitting(candidates: Iterable[Candidate], profile: Profile) -> list[Candidate]:
    """Those that the profile has GPUs enough for; all of them on a lane without GPUs.

    Raises:
        MisuseError: none is left.
    """
    candidates = list(candidates)
    fit = [c for c in candidates if not profile.needs_gpu or c.gpus <= profile.machine.gpus]
    if not fit:
        least = min(candidate.gpus for candidate in candidates)
        raise MisuseError(
            f"none of its {len(candidates)} candidates runs on {profile.machine.gpus} GPUs",
            key=f"profile {profile.name}",
            expected=f"a candidate of {profile.candidates_folder!r} that needs less than {least}",
        )
    return fit


def _inherit(name: str, raw: Mapping[str, tuple[Path, dict[str, Any]]]) -> dict[str, Any]:
    """The file's data laid over its parents', nearest last."""
    chain: list[str] = []
    here: str | None = name
    while here is not None:
        path, data = raw[here]
        if here in chain:
            raise MisuseError(f"a cycle: {' -> '.join([*chain, here])}", file=path, key="extends")
        chain.append(here)
        parent = data.get("extends")
        if parent is not None and parent not in raw:
            near = nearest(parent, raw)
            raise MisuseError(
                "no such candidate",
                file=path,
                key="extends",
                value=parent,
                expected=f"did you mean {near!r}?" if near else f"known: {', '.join(sorted(raw))}",
            )
        here = parent
    merged: dict[str, Any] = {}
    for ancestor in reversed(chain):
        # A reason explains one candidate: an inherited one would explain nothing.
        own = {k: v for k, v in raw[ancestor][1].items() if k not in {"extends", "abstract"}}
        merged.pop("reason", None)
        merged = overlay(merged, own)
    if (parent := raw[name][1].get("extends")) is not None:
        merged["extends"] = parent
    return merged


def overlay(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """``above`` over ``below``, tables merged key by key, everything else replaced."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = overlay(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _expand(data: dict[str, Any], path: Path, profile: Profile) -> list[Candidate]:
    file = validate(_File, data, path)
    size = 1
    for key, values in file.matrix.items():
        area, _, name = key.partition(".")
        if area not in {"arguments", "environment"} or not name:
            raise MisuseError(
                "not a matrix axis",
                file=path,
                key=f"matrix.{key}",
                expected="arguments.X or environment.X",
            )
        if not values:
            raise MisuseError("an axis without values", file=path, key=f"matrix.{key}")
        size *= len(values)
    if size > MATRIX_CAP:
        raise MisuseError(
            f"spans {size} candidates",
            file=path,
            key="matrix",
            expected=f"at most {MATRIX_CAP}; split the file",
        )

    common = {
        "arguments": dict(profile.arguments),
        "environment": dict(profile.environment),
    }
    own = {k: v for k, v in data.items() if k not in {"matrix", "abstract"}}
    candidates = []
    for point_values in itertools.product(*file.matrix.values()):
        point: dict[str, Any] = overlay(common, own)
        label = file.name
        for axis, value in zip(file.matrix, point_values, strict=True):
            area, _, name = axis.partition(".")
            point = overlay(point, {area: {name: value}})
            label += f"--{name.lower()}-{_slug(value)}"
        point |= {"name": label, "profile": profile.name, "file": str(path)}
        candidates.append(validate(Candidate, point, path))
    return candidates


def _slug(value: ArgumentValue) -> str:
    text = "-".join(map(str, value)) if isinstance(value, list) else str(value)
    return "".join(c if (c.isascii() and c.isalnum()) or c in ".-" else "-" for c in text.lower())[:24]
