"""A server that somebody else started: asked, never launched, never stopped."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from sglgate.config import Candidate, Profile
from sglgate.errors import MisuseError, NotExercisedError
from sglgate.launch.client import Client, ServerError
from sglgate.launch.errors import LaunchError
from sglgate.launch.pool import ServerPool
from sglgate.launch.server import Server
from sglgate.logs.record import StartupRecord
from sglgate.naming import file_name
from sglgate.stack import Stack, make_stack

_LOOPBACK = ("127.0.0.1", "localhost")
_NO_LAUNCH = "this server was attached to: nothing is launched, and nothing is known of its start"
_NO_LOG = "this server was attached to, and its log was not named with --attach-log"


def port_of(url: str) -> int:
    """The port of a server on this machine.

    Raises:
        MisuseError: another machine, or no address of a server.
    """
    try:
        parts = urlsplit(url)
        if parts.scheme == "http" and parts.hostname in _LOOPBACK and parts.port and parts.path in ("", "/"):
            return parts.port
    except ValueError:
        pass
    raise MisuseError(
        "not a server on this machine",
        key="--attach",
        value=url,
        expected="http://127.0.0.1:PORT, over a tunnel if need be",
    )


def ask_for_its_arguments(port: int, api_key: str | None) -> dict[str, Any]:
    """What the server says of itself.

    Raises:
        MisuseError: nobody answers there.
    """
    with Client(port, api_key) as client:
        try:
            return client.server_info()
        except ServerError as error:
            raise MisuseError(f"no SGLang server: {error}", key="--attach", value=client.base_url) from None


def require_candidate(info: dict[str, Any], candidate: Candidate, model: str) -> None:
    """The server is the one that the candidate describes.

    Raises:
        MisuseError: it serves another model, or resolved an argument of the candidate to something else.
    """
    asked = {name.replace("-", "_"): value for name, value in candidate.arguments.items()}
    wanted = {name: value for name, value in asked.items() if name in info and name != "api_key"}
    differing = [
        f"{name} is {info[name]!r}, not {value!r}"
        for name, value in wanted.items()
        if info[name] != value and str(info[name]) != str(value) and (value is not False or info[name] is True)
    ]
    if info.get("model_path") not in (model, candidate.model):
        differing.append(f"it serves {info.get('model_path')!r}, not {model!r}")
    if differing:
        raise MisuseError(
            f"the server is none that {candidate.name} describes: {'; '.join(differing)}",
            key="--attach",
            expected="attach to it with the candidate that it was launched as",
        )


def stack_of(info: dict[str, Any]) -> Stack:
    """All that a server tells of its software: SGLang's version."""
    packages = {"sglang": str(info.get("version", "unknown"))}
    return make_stack(None, {"python": "", "libc": "", "torch_build": {}, "packages": packages, "parser": ""})


class _NeverLaunched(dict[str, float]):
    """Phases of a start that nobody saw."""

    def __missing__(self, phase: str) -> NoReturn:
        raise NotExercisedError(_NO_LAUNCH)


class AttachedServer(Server):
    """``its_log`` is the file that the server writes to, if it is on this machine."""

    def __init__(
        self,
        candidate: Candidate,
        profile: Profile,
        stack: Stack,
        model: str,
        log: Path,
        port: int,
        its_log: Path | None,
    ) -> None:
        super().__init__(candidate, profile, stack, model, log, port=port)
        self.phase_s = _NeverLaunched()
        self._its_log = its_log

    @property
    def record(self) -> StartupRecord:
        """What its log says, up to now."""
        if self._its_log is None:
            raise NotExercisedError(_NO_LOG)
        self.watch.look()
        return super().record

    @property
    def pid(self) -> NoReturn:
        """Not ours to know."""
        raise NotExercisedError(_NO_LAUNCH)

    def start(self) -> None:
        """Ask it for its arguments; its log is read where it is, and copied into the run at the end."""
        self.log.unlink(missing_ok=True)
        if self._its_log is not None:
            self.log.symlink_to(self._its_log.absolute())
        else:
            self.log.write_text(f"{_NO_LOG}\n", encoding="utf-8")
        self.info = self.client.server_info()

    def dead(self) -> str | None:
        """How it fails to answer, or None."""
        try:
            self.client.server_info()
        except ServerError as error:
            return f"the server that was attached to does not answer any more: {error}"
        return None

    def describe(self) -> dict[str, Any]:
        """As of a launch, without one."""
        return {"candidate": self.candidate.name, "attached": self.client.base_url, "resolved": self.info}

    def stop(self, grace_s: float | None = None) -> None:
        """Leave it as it is."""
        self.client.close()
        if self.log.is_symlink():
            source = self.log.resolve()
            self.log.unlink()
            shutil.copyfile(source, self.log)


class AttachedPool(ServerPool):
    """Hands out the one server that is there; a launch of its own is nothing that it can give."""

    def get(self, candidate: Candidate) -> Server:
        """The server."""
        if not self._running:
            server = self._make(candidate, self._logs / f"{file_name(candidate.name)}.attached.log", ())
            server.start()
            server.configuration = candidate.configuration
            self._running.append(server)
            self._note(server, None)
        if self._running[0].configuration != candidate.configuration:
            raise NotExercisedError(_NO_LAUNCH)
        return self._running[0]

    def fresh(self, candidate: Candidate) -> NoReturn:
        """What needs a launch of its own is not exercised."""
        raise NotExercisedError(_NO_LAUNCH)

    def bury(self, server: Server) -> LaunchError | None:
        """Say that it is gone; nothing of it is ours to stop."""
        problem = server.dead()
        return LaunchError(problem, phase="serving", log=server.log) if problem else None
