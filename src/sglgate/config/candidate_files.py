"""Candidate files in, candidates out: inheritance, variants and matrix resolved, the profile's share merged in."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import Field

from sglgate.config.candidate import RELEASES_HELP, SUITES_HELP, Candidate, Expect, Releases, Suite
from sglgate.config.profile import ArgumentValue, Name, Profile, _Strict
from sglgate.config.toml_files import read_toml, validate
from sglgate.errors import MisuseError, nearest

MATRIX_CAP: Final = 64


class _File(_Strict):
    """A candidate as it stands in its file: every key may come from the one that it extends."""

    name: Name = Field(description="the file's name without .toml")
    extends: Name | None = Field(default=None, description="another candidate of the same folder")
    abstract: bool = Field(default=False, description="only there to be extended; never launched")
    reason: str | None = Field(default=None, min_length=1, description="why it is judged, in prose")
    model: str | None = Field(default=None, min_length=1, description="a recipe, a folder or a hub id")
    sglang: Releases | None = Field(default=None, description=RELEASES_HELP)
    suites: list[Suite] | None = Field(default=None, description=SUITES_HELP)
    arguments: dict[str, ArgumentValue] = Field(default={}, description="server arguments without the dashes")
    environment: dict[str, str] = Field(default={}, description="NAME = text")
    expect: Expect = Expect()
    matrix: dict[str, list[ArgumentValue]] = Field(default={}, description='"arguments.page-size" = [1, 16]')
    variants: dict[Name, dict[str, Any]] = Field(
        default={}, description="one candidate each: NAME = what it lays over this file"
    )


def load_candidates(folder: Path, profile: Profile) -> list[Candidate]:
    """Every candidate of one profile, in the order of their files, inheritance and matrices resolved.

    Raises:
        MisuseError: unknown keys, wrong types, a cycle, an unknown parent, a matrix beyond 64 candidates,
            or two candidates of one name.
    """
    raw: dict[str, tuple[Path, dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.toml"), key=lambda path: path.stem):
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
    fit = [c for c in candidates if not profile.needs_gpu or c.tensor_parallel <= profile.machine.gpus]
    if not fit:
        least = min(candidate.tensor_parallel for candidate in candidates)
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
    size *= max(1, len(file.variants))
    if size > MATRIX_CAP:
        raise MisuseError(
            f"spans {size} candidates",
            file=path,
            key="variants" if file.variants else "matrix",
            expected=f"at most {MATRIX_CAP}; split the file",
        )

    common = {
        "arguments": dict(profile.arguments),
        "environment": dict(profile.environment),
    }
    own = {k: v for k, v in data.items() if k not in {"matrix", "variants", "abstract"}}
    candidates = []
    for variant, *point_values in itertools.product(file.variants or [""], *file.matrix.values()):
        point: dict[str, Any] = overlay(overlay(common, own), file.variants.get(variant, {}))
        label = f"{file.name}--{variant}" if variant else file.name
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
