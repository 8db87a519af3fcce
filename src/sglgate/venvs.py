"""Virtual environments that are whole, or made so again. Standard library only: ci/quickstart runs before pip has.

A finished environment bears a mark with the key of what was asked for. The next call checks every file of it by size,
installs what is damaged anew, and touches nothing else.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from sglgate.errors import ExitCode, SglgateError


class SetupError(SglgateError):
    """What stands in the way, in one sentence for a person."""

    exit_code = ExitCode.MISUSE


def cache_folder() -> Path:
    """Where sglgate keeps what it can rebuild: models, stacks, answers of argument parsers."""
    base = os.environ.get("SGLGATE_CACHE")
    return Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "sglgate"


def say(text: str) -> None:
    """One line for the person who waits."""
    print(f"setup: {text}", flush=True)


@contextlib.contextmanager
def sole_maker() -> Iterator[None]:
    """Wait for any other that makes environments in this cache: two at once would install into one."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "setup.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def check_machine() -> None:
    """Refuse at once what would fail in ten minutes."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise SetupError(f"the sglang wheels are for Linux on x86_64, this is {sys.platform} on {platform.machine()}")
    if not (3, 11) <= sys.version_info[:2] <= (3, 12):
        raise SetupError(f"Python 3.11 or 3.12 is needed as python3, this is {platform.python_version()}")


def check_disk(needed_gb: int) -> None:
    """Enough room for what is still to be made."""
    place = cache_folder()
    place.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(place).free / 1e9
    if free < needed_gb:
        raise SetupError(f"{needed_gb} GB are needed in {place}, {free:.0f} GB are free (SGLGATE_CACHE moves it)")


def run_logged(argv: Sequence[str], log: Path, what: str, folder: Path | None = None) -> None:
    """Run a step, in ``folder``, with its output in a log and its progress in one line.

    Raises:
        SetupError: it failed; the end of its log is in the text.
    """
    begun = time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    with (
        log.open("w", encoding="utf-8") as out,
        subprocess.Popen(list(argv), stdout=out, stderr=subprocess.STDOUT, env=environment, cwd=folder) as process,
    ):
        live = sys.stdout.isatty()
        while True:
            try:
                code = process.wait(timeout=1 if live else 30)
                break
            except subprocess.TimeoutExpired:
                text = f"setup: {what}: {_state(log)}, {time.monotonic() - begun:.0f} s"
                print(f"\r\033[K{text}" if live else text, end="" if live else "\n", flush=True)
    if live:
        print("\r\033[K", end="")
    if code != 0:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
        raise SetupError(f"{what} failed (exit code {code}); the end of {log}:\n{tail}")
    say(f"{what}: done in {time.monotonic() - begun:.0f} s")


def _state(log: Path) -> str:
    """What pip is about, from its log."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    found = sum(line.lstrip().startswith("Collecting") for line in lines)
    if any(line.startswith("Installing collected") for line in lines):
        return f"unpacking {found} packages"
    return f"{found} packages found" if found else "working"


def content_key(*parts: str | bytes) -> str:
    """Twelve hex digits that change with any of the parts."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
        digest.update(b"\0")
    return digest.hexdigest()[:12]


def odd_files(venv: Path) -> dict[str, tuple[str, int | None]]:
    """Files of a venv that are missing or not of the size that their package's RECORD says.

    Path below site-packages -> (distribution, size or None). Some wheels are published with a wrong RECORD.
    """
    odd: dict[str, tuple[str, int | None]] = {}
    for record in venv.glob("lib/python*/site-packages/*.dist-info/RECORD"):
        site, distribution = record.parent.parent, record.parent.name.removesuffix(".dist-info")
        for line in record.read_text(encoding="utf-8").splitlines():
            name, _, size = line.rpartition(",")
            path = name.rpartition(",")[0].strip('"')
            # Scripts are rewritten and caches come and go: their sizes mean nothing.
            if not size.isdigit() or path.startswith("../") or path.endswith(".pyc"):
                continue
            try:
                actual: int | None = os.stat(site / path).st_size  # noqa: PTH116 - 60,000 files, Path is slower
            except FileNotFoundError:
                actual = None
            if actual != int(size):
                odd[path] = (distribution, actual)
    return odd


def ensure_venv(venv: Path, key: str, what: str, install: Callable[[str], None]) -> None:
    """A venv whose mark holds ``key`` is whole; else ``install(python)`` finishes it, and the mark comes last."""
    mark, python = venv / "sglgate.json", venv / "bin" / "python"
    try:
        marked = json.loads(mark.read_text(encoding="utf-8"))
        known = {path: tuple(entry) for path, entry in marked["odd"].items()} if marked["key"] == key else None
    except (OSError, ValueError, KeyError):
        known = None
    if known is not None and python.exists():
        broken = sorted({entry[0] for path, entry in odd_files(venv).items() if known.get(path) != entry})
        if not broken:
            say(f"{what}: whole")
            return
        say(f"{what}: {len(broken)} packages are damaged and installed anew: {', '.join(broken[:5])}")
        for name in broken:
            # Without its record pip takes a package for absent, and installs it.
            for folder in venv.glob(f"lib/python*/site-packages/{name}.dist-info"):
                shutil.rmtree(folder)
    mark.unlink(missing_ok=True)
    if not python.exists() or subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode != 0:
        shutil.rmtree(venv, ignore_errors=True)
        run_logged(
            [sys.executable, "-m", "venv", str(venv)], cache_folder() / "logs" / "venv.log", f"{what}: environment"
        )
    install(str(python))
    mark.write_text(json.dumps({"key": key, "odd": odd_files(venv)}), encoding="utf-8")
