"""TOML text into pydantic models, with one clear error for whatever a person may have got wrong."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from sglgate.errors import MisuseError, nearest

Model = TypeVar("Model", bound=BaseModel)


def read_toml(path: Path) -> dict[str, Any]:
    """Parse one file.

    Raises:
        MisuseError: the file is absent, unreadable, not UTF-8 or not TOML (with the line that tomllib names).
    """
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        raise MisuseError("no such file", file=path) from None
    except OSError as error:
        raise MisuseError(f"cannot be read: {error.strerror}", file=path) from None
    except UnicodeDecodeError as error:
        raise MisuseError(f"not UTF-8 at byte {error.start}", file=path) from None
    except tomllib.TOMLDecodeError as error:
        raise MisuseError(f"not valid TOML: {error}", file=path) from None


def validate(model: type[Model], data: dict[str, Any], path: Path) -> Model:
    """``data`` as ``model``; the first mistake becomes a MisuseError with the nearest right key.

    Raises:
        MisuseError: an unknown key, a missing key or a value of the wrong type or range.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        # An unknown key often comes with a "missing" one: the misspelling is the cause, so it is told first.
        first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
        location = [str(part) for part in first["loc"]]
        key = ".".join(location)
        if first["type"] == "extra_forbidden":
            known = _keys_at(model, location[:-1])
            near = nearest(location[-1], known)
            hint = f"did you mean {near!r}?" if near else f"known keys: {', '.join(sorted(known))}"
            raise MisuseError("unknown key", file=path, key=key, expected=hint) from None
        if first["type"] == "missing":
            raise MisuseError("missing key", file=path, key=key, expected=_describe(model, location)) from None
        message = first["msg"].removeprefix("Value error, ")
        raise MisuseError(
            message, file=path, key=key, value=first["input"], expected=_describe(model, location)
        ) from None


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in getattr(annotation, "__args__", ()) for found in _models_in(part)]


def _field(model: type[BaseModel], location: list[str]) -> FieldInfo | None:
    """The field at a dotted location, walking through nested models."""
    models: list[type[BaseModel]] = [model]
    field: FieldInfo | None = None
    for part in location:
        fields = [m.model_fields[part] for m in models if part in m.model_fields]
        if not fields:
            return field
        field = fields[0]
        models = _models_in(field.annotation)
    return field


def _keys_at(model: type[BaseModel], location: list[str]) -> set[str]:
    if not location:
        return set(model.model_fields)
    field = _field(model, location)
    return {key for m in _models_in(field.annotation) for key in m.model_fields} if field else set()


def _describe(model: type[BaseModel], location: list[str]) -> str | None:
    field = _field(model, location)
    return field.description if field else None
