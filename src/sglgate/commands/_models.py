"""Models by their recipes: those belong to the checkout, not to the installed package."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from sglgate.config import Candidate
from sglgate.errors import MisuseError


def with_models(candidate: Candidate, root: Path) -> tuple[Candidate, str]:
    """The candidate and its model as folders, or as they are named where no recipe is."""
    if not any(str(value).startswith("recipe:") for value in (candidate.model, *candidate.arguments.values())):
        return candidate, candidate.model
    resolve = _resolver(root)
    return resolve.with_models(candidate), resolve.resolve_model(candidate.model)


def models_here(candidates: list[Candidate], root: Path) -> dict[str, Path]:
    """The folders of those models that lie on this machine, by the candidates' ``model``."""
    resolve, found = _resolver(root), {}
    for model in {candidate.model for candidate in candidates}:
        try:
            found[model] = Path(resolve.resolve_model(model))
        except MisuseError:
            continue
    return found


def _resolver(root: Path) -> ModuleType:
    sys.path.insert(0, str(root.resolve()))
    try:
        return importlib.import_module("fixtures.models.resolve")
    finally:
        sys.path.pop(0)
