"""The software under test: an interpreter with its own sglang, torch, CUDA and NCCL, and its fingerprint."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sglgate.config import Candidate
from sglgate.container import Container, parse_container
from sglgate.errors import MisuseError, SglgateError, nearest
from sglgate.venvs import cache_folder

_STACK_SIDE: Final = Path(__file__).parent / "stack_side"
_PROBE_DEADLINE_S: Final = 180
#: What makes two stacks different in a table that a person reads; the digest covers every package.
HEADLINE_PACKAGES: Final = (
    "sglang",
    "torch",
    "sglang-kernel",
    "sgl-kernel",
    "flashinfer-python",
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
    "triton",
    "transformers",
    "sglgate-cpu-stack",
)


def inherited_environment() -> dict[str, str]:
    """What a stack's interpreter gets of this process's environment: all but what leaks one Python into another."""
    ours = {"PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "PYTEST_CURRENT_TEST"}
    return {name: value for name, value in os.environ.items() if name not in ours}


def write_atomically(path: Path, text: str) -> None:
    """Replace ``path`` in one step, so that a reader or a kill never sees half of it.

    Raises:
        SglgateError: the disk is full or not writable; what stood there stays.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise SglgateError(f"cannot be written: {path}: {error.strerror}") from None


@dataclass(frozen=True)
class Command:
    """How to start something in a stack. ``farewell``: see :meth:`sglgate.container.Container.farewell`."""

    argv: list[str]
    environment: dict[str, str]
    farewell: tuple[list[str], ...] = ()


def python_command(
    python: Path | Container,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    folders: Mapping[Path, bool] | None = None,
    name: str | None = None,
) -> Command:
    """Python with ``arguments`` in a stack; ``environment`` is what its process gets beside what a stack inherits.

    ``folders`` and ``name`` are for a container: see :meth:`sglgate.container.Container.command`.
    """
    if not isinstance(python, Container):
        return Command([str(python), *arguments], {**inherited_environment(), **environment})
    return Command(
        python.command(arguments, environment, folders or {}, name),
        python.client_environment(inherited_environment(), environment),
        python.farewell(name) if name else (),
    )


@dataclass(frozen=True)
class Stack:
    """One interpreter, in a container or not, read from the inside. ``python`` is None where only a server was found.

    ``digest`` is the first 12 hex digits of a SHA-256 over every package and the torch build: two stacks with one
    digest run the same Python software.
    """

    python: Path | Container | None
    python_version: str
    packages: Mapping[str, str]
    torch_build: Mapping[str, str]
    libc: str
    #: Size and time of the file with the argument parser; empty where it cannot be found.
    parser: str
    digest: str = field(default="", compare=False)

    @property
    def sglang(self) -> str:
        """SGLang's version."""
        return self.packages["sglang"]

    @property
    def headline(self) -> dict[str, str]:
        """The versions that matter most, for tables."""
        found = {name: self.packages[name] for name in HEADLINE_PACKAGES if name in self.packages}
        return {"python": self.python_version, **found, "torch CUDA": self.torch_build.get("cuda", "none")}

    def as_json(self) -> dict[str, Any]:
        """The whole fingerprint, without the path: that is this machine's and not the stack's."""
        return {
            "digest": self.digest,
            "python": self.python_version,
            "libc": self.libc,
            "torch_build": dict(self.torch_build),
            "packages": dict(self.packages),
        }


def find_stack(option: str | None, root: Path, key: str = "--stack") -> Path | Container:
    """The interpreter to judge: what ``option`` says, else ``SGLGATE_STACK``, else the CPU stack that quickstart makes.

    Args:
        option: the value of the command line's option, if it was given.
        root: of the project.
        key: the option's name, for the error.

    Raises:
        MisuseError: nothing executable is there.
    """
    named = option or os.environ.get("SGLGATE_STACK")
    if named and (container := parse_container(named)) is not None:
        return container
    origin = key if option else "SGLGATE_STACK" if named else ".stacks/cpu"
    path = Path(named).expanduser() if named else root / ".stacks" / "cpu" / "bin" / "python"
    if path.is_dir():
        path = path / "bin" / "python"
    if not os.access(path, os.X_OK) or path.is_dir():
        found = shutil.which(str(path)) if named else None
        if found is None:
            raise MisuseError(
                "not an executable Python interpreter",
                key=origin,
                value=str(path),
                expected="run ci/quickstart, or pass --stack /path/to/python of an environment with sglang",
            )
        path = Path(found)
    # absolute, not resolved: resolving a venv's python leads out of the venv.
    return path.absolute()


def read_stack(python: Path | Container) -> Stack:
    """Fingerprint an interpreter without importing torch or sglang in it.

    Raises:
        MisuseError: it does not run, or has no sglang.
    """
    data = json.loads(run_in_stack(python, "fingerprint.py", "", {}))
    if "sglang" not in data["packages"]:
        raise MisuseError("has no sglang", key="--stack", value=str(python), expected="an environment with sglang")
    return make_stack(python, data)


def make_stack(python: Path | Container | None, data: Mapping[str, Any]) -> Stack:
    """A stack from what ``fingerprint.py`` prints."""
    identity = {k: data[k] for k in ("python", "libc", "torch_build", "packages")}
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
    return Stack(python, data["python"], data["packages"], data["torch_build"], data["libc"], data["parser"], digest)


def check_arguments(stack: Stack, candidates: Iterable[Candidate], environment: Mapping[str, str]) -> None:
    """Hold every candidate's arguments against the stack's own parser before anything starts.

    The parser's answers are cached by stack: importing sglang takes ten seconds, reading a file takes none.

    Raises:
        MisuseError: a flag that this SGLang lacks (with the nearest one it has), or a value that it refuses.
    """
    candidates = list(candidates)
    # An editable sglang changes without a new version: its parser's file is part of what is asked.
    asked_of = json.dumps([stack.digest, stack.parser, sorted(environment.items())])
    key = hashlib.sha256(asked_of.encode()).hexdigest()[:16]
    cache_file = cache_folder() / "arguments" / f"{key}.json"
    try:
        cache = json.loads(cache_file.read_text(encoding="utf-8"))
        flags, errors = set(cache["flags"]), dict(cache["errors"])
    except (OSError, ValueError, KeyError, TypeError):
        flags, errors = set(), {}

    unanswered = {json.dumps(argv): argv for c in candidates if json.dumps(argv := _argv(c)) not in errors}
    if unanswered or not flags:
        answer = json.loads(
            run_in_stack(stack.python, "check_arguments.py", json.dumps([*unanswered.values()]), environment)
        )
        flags = set(answer["flags"])
        errors |= dict(zip(unanswered, answer["errors"], strict=True))
        write_atomically(cache_file, json.dumps({"flags": sorted(flags), "errors": errors}))

    for candidate in candidates:
        _check_one(candidate, flags, errors[json.dumps(_argv(candidate))], stack)


def _argv(candidate: Candidate) -> list[str]:
    return ["--model-path", "model", *candidate.command_line()]


def _check_one(candidate: Candidate, flags: set[str], error: str | None, stack: Stack) -> None:
    for name in candidate.arguments:
        if f"--{name}" not in flags:
            # argparse would accept a prefix; the next release may add a flag that takes it over.
            longer = sorted(flag for flag in flags if flag.startswith(f"--{name}"))
            near = longer[0] if len(longer) == 1 else nearest(f"--{name}", flags)
            raise MisuseError(
                f"SGLang {stack.sglang} has no --{name}",
                file=candidate.file,
                key=f"arguments.{name}",
                expected=f"did you mean {near[2:]!r}?" if near else "see its --help",
            )
    if error is not None and (candidate.expect.failure is None or candidate.expect.failure.cause != "bad_flag"):
        raise MisuseError(f"SGLang {stack.sglang} refuses: {error}", file=candidate.file, key="arguments")


def run_in_stack(python: Path | Container | None, script: str, stdin: str, environment: Mapping[str, str]) -> str:
    """What a script of ``stack_side`` prints when the stack's interpreter runs it.

    Raises:
        MisuseError: it does not run, or fails.
    """
    assert python is not None
    command = python_command(python, [str(_STACK_SIDE / script)], environment, {_STACK_SIDE: False})
    try:
        done = subprocess.run(
            command.argv,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_PROBE_DEADLINE_S,
            env=command.environment,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MisuseError(f"does not run: {error}", key="--stack", value=str(python)) from None
    if done.returncode != 0:
        last: Sequence[str] = done.stderr.strip().splitlines()[-1:] or ["no output"]
        raise MisuseError(f"{script} failed in it: {last[0]}", key="--stack", value=str(python))
    return done.stdout
