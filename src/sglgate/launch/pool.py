"""One server at a time, each candidate launched once, a failed launch remembered and never retried."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from sglgate.config import Candidate
from sglgate.launch.errors import LaunchError, LeftoverError
from sglgate.launch.grounds import Grounds
from sglgate.launch.server import Server
from sglgate.naming import file_name


class ServerPool:
    """Hands out servers; whoever asks for another candidate ends the one before.

    Args:
        make: builds the server of a candidate, given its log path and the slots that it may use.
        logs: folder of the logs, one a launch.
        note: told of each launch, with the problem if it failed.
        grounds: the leases of this process; without, it has the machine to itself.
    """

    def __init__(
        self,
        make: Callable[[Candidate, Path, tuple[int, ...]], Server],
        logs: Path,
        note: Callable[[Server, str | None], None] = lambda server, problem: None,
        grounds: Grounds | None = None,
    ) -> None:
        self._make, self._logs, self._note = make, logs, note
        self.grounds = grounds or Grounds()
        self._running: list[Server] = []
        self._failed: dict[str, LaunchError] = {}
        self._leftover: LeftoverError | None = None
        self._launches: dict[str, int] = {}

    @property
    def is_running(self) -> bool:
        """Whether a server of this pool is up."""
        return bool(self._running)

    def get(self, candidate: Candidate) -> Server:
        """The running server of ``candidate``, launched now if need be.

        Raises:
            LaunchError: its launch failed, now or before in this run.
            LeftoverError: an earlier server could not be proved gone.
        """
        if candidate.configuration in self._failed:
            raise self._failed[candidate.configuration]
        running = [server for server in self._running if server.configuration == candidate.configuration]
        return running[0] if running else self.fresh(candidate)

    def fresh(self, candidate: Candidate) -> Server:
        """A new launch of ``candidate``, whatever runs now: for tests that compare launches."""
        self.stop()
        return self._launch(candidate)

    @contextlib.contextmanager
    def together(self, *candidates: Candidate) -> Iterator[list[Server]]:
        """A new launch of each, in this order, all up at once and each held still (:meth:`Server.thaw` wakes one)."""
        self.stop()
        servers = []
        try:
            for candidate in candidates:
                servers.append(self._launch(candidate))
                servers[-1].freeze()
            yield servers
        finally:
            # Nobody else may be handed one that is held still.
            self.stop()

    def _launch(self, candidate: Candidate) -> Server:
        slots = self.grounds.need(candidate.tensor_parallel, f"server of {candidate.name}")
        number = self._launches.get(candidate.name, 0) + 1
        while (log := self._logs / f"{file_name(candidate.name)}.{number}.log").exists():
            number += 1  # a run that is resumed has logs already
        self._launches[candidate.name] = number
        server = self._make(candidate, log, slots)
        server.configuration = candidate.configuration
        try:
            server.start()
        except LeftoverError as error:
            self._leftover = error
            self._note(server, str(error))
            raise
        except LaunchError as error:
            self._failed[candidate.configuration] = error
            self._note(server, str(error))
            raise
        self._running.append(server)
        self._note(server, None)
        return server

    def bury(self, server: Server) -> LaunchError | None:
        """If ``server`` has died since it came up: stop what is left, remember why, and say it."""
        if server not in self._running:
            return None  # stopped since, with proof
        problem = server.dead()
        if problem is None:
            return None
        self.stop()
        error = LaunchError(problem, phase="serving", log=server.log, diagnosis=server.diagnose())
        self._failed[server.configuration] = error
        return error

    def stop(self, grace_s: float | None = None) -> None:
        """End the running server, with proof; ``grace_s`` shortens the profile's time for it to end by itself.

        Raises:
            LeftoverError: it, or one before it, could not be proved gone; nothing more is launched in this run.
        """
        if self._leftover is not None:
            raise self._leftover
        # The last one first: the memory that it found is to be as it found it.
        while self._running:
            try:
                self._running[-1].stop(grace_s)
            except LeftoverError as error:
                self._leftover = error
                raise
            # Only now: an interrupt in the middle must find the server again.
            self._running.pop()
        self.grounds.give_up()

    def recall(self, failures: dict[str, LaunchError]) -> None:
        """What an earlier part of this run saw fail to launch, by configuration: it is not tried again."""
        self._failed.update(failures)
