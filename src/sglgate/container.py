"""A stack in a container: the command line that runs Python in it, and the proof that nothing of it is left.

Folders are mounted at their own paths and the host's network is used, so that no path or port has to be translated.
Variables are handed over by name: their values are on no command line that ``ps`` shows.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sglgate.errors import MisuseError

#: Engine -> its verb, and whether a daemon keeps the container: that one outlives the client that we started.
_ENGINES: Final = {
    "docker": ("run", True),
    "podman": ("run", True),
    "apptainer": ("exec", False),
    "singularity": ("exec", False),
}
_NETWORK: Final = ("--network", "--net", "-p", "--publish")


@dataclass(frozen=True)
class Container:
    """``engine`` is the client's path; ``words`` are the person's options and, last, the image."""

    engine: str
    words: tuple[str, ...]

    @property
    def _kind(self) -> str:
        return Path(self.engine).name

    @property
    def has_daemon(self) -> bool:
        """Whether the container is no child of the client: a killed client leaves it running."""
        return _ENGINES[self._kind][1]

    def command(
        self, arguments: Sequence[str], variables: Iterable[str], folders: Mapping[Path, bool], name: str | None
    ) -> list[str]:
        """The argv that runs ``python3 ARGUMENTS`` inside. ``folders`` maps a folder to whether it is writable."""
        mounts = [f"{folder}:{folder}{'' if writable else ':ro'}" for folder, writable in sorted(folders.items())]
        verb = _ENGINES[self._kind][0]
        if not self.has_daemon:
            binds = [part for mount in mounts for part in ("--bind", mount)]
            return [self.engine, verb, "--cleanenv", *binds, *self.words, "python3", *arguments]
        ours = ["--rm", "-i", "--network", "host", *(("--name", name) if name else ())]
        ours += [part for mount in mounts for part in ("-v", mount)]
        ours += [part for variable in sorted(variables) for part in ("-e", variable)]
        return [self.engine, verb, *ours, *self.words, "python3", *arguments]

    def client_environment(self, inherited: Mapping[str, str], inside: Mapping[str, str]) -> dict[str, str]:
        """The client's environment: what it takes the variables of the inside from."""
        if self.has_daemon:
            return {**inherited, **inside}
        return {**inherited, **{f"{self._kind.upper()}ENV_{name}": value for name, value in inside.items()}}

    def farewell(self, name: str) -> tuple[list[str], ...]:
        """Commands that end a named container; the last must print nothing, as the proof that it is gone."""
        if not self.has_daemon:
            return ()
        return [self.engine, "rm", "-f", name], [self.engine, "ps", "-aq", "--filter", f"name=^{name}$"]


def parse_container(text: str) -> Container | None:
    """A ``--stack`` that starts with a container engine; None for anything else.

    Raises:
        MisuseError: the engine is not here, or the command is none that can be used.
    """
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    kind = Path(words[0]).name if words else ""
    if len(words) < 2 or kind not in _ENGINES:
        return None
    verb = _ENGINES[kind][0]
    if words[1] != verb or len(words) < 3:
        raise MisuseError("no container command", key="--stack", value=text, expected=f"{kind} {verb} OPTIONS IMAGE")
    if network := [word for word in words[2:] if word.partition("=")[0] in _NETWORK]:
        raise MisuseError(
            "the suite reaches its server on the host's own network",
            key="--stack",
            value=network[0],
            expected="omit it",
        )
    engine = shutil.which(words[0])
    if engine is None:
        raise MisuseError("no such container engine on this machine", key="--stack", value=words[0])
    return Container(engine, tuple(words[2:]))


def folders_of(paths: Iterable[str]) -> set[Path]:
    """The folders that a container needs to see these absolute paths, and what links in them lead to."""
    found: set[Path] = set()
    for text in paths:
        path = Path(text)
        if path.is_absolute() and path.is_dir():
            # A model in the hub's cache is a folder of links into another one.
            found |= {path} | {entry.resolve().parent for entry in path.iterdir() if entry.is_symlink()}
    return found
