"""What can go wrong, as a tree, and the exit code that each branch means.

SglgateError                exit 1
├── MisuseError             exit 2   a file, key or argument that a person must correct
├── UnfitError              exit 3   this machine cannot judge now
├── NotExercisedError       exit 1   what a gate is about cannot be reached in this run
└── (LaunchError)           exit 1   in sglgate.launch: a server that did not come up
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import IntEnum


class ExitCode(IntEnum):
    """What every command of ``sglgate`` returns."""

    GREEN = 0
    RED = 1
    MISUSE = 2
    UNFIT = 3


class SglgateError(Exception):
    """Base of everything sglgate raises on purpose."""

    exit_code = ExitCode.RED


class MisuseError(SglgateError):
    """Bad input: names the file, the key, the value, and what would be right.

    Args:
        problem: what is wrong, one sentence without a full stop.
        file: where it stands, if it stands in a file.
        key: dotted path inside the file, or the name of the argument.
        value: the value that was refused.
        expected: what would be right.
    """

    exit_code = ExitCode.MISUSE

    def __init__(
        self,
        problem: str,
        *,
        file: object = None,
        key: str | None = None,
        value: object = None,
        expected: str | None = None,
    ) -> None:
        self.problem, self.file, self.key, self.value, self.expected = problem, file, key, value, expected
        where = ": ".join(str(part) for part in (file, key) if part is not None)
        text = f"{where}: {problem}" if where else problem
        if value is not None:
            text += f" (got {value!r})"
        if expected is not None:
            text += f"; {expected}"
        super().__init__(text)


class UnfitError(SglgateError):
    """The machine cannot judge: locked by another run, dirty, drifting, or lacking what the profile needs."""

    exit_code = ExitCode.UNFIT


class NotExercisedError(SglgateError):
    """What a gate judges did not happen in this run: its verdict is NOT_EXERCISED, whose reason this is."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that ``name`` was probably meant to be, or None."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return found[0] if found else None
