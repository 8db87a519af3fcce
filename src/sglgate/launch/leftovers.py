"""What a stopped server may leave behind, and the proof that it did not."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from sglgate.config import Profile
from sglgate.gpus import read_gpus
from sglgate.launch.errors import LeftoverError
from sglgate.launch.node_lock import default_lock_file

#: Stands in the environment of every process of a launch, whatever its session and parent.
TAG: Final = "SGLGATE_LAUNCH"
_SHM: Final = Path("/dev/shm")  # noqa: S108 - listed, never written


def tag() -> str:
    """This process's tag. It names the node lock too: runs under another lock are not ours to find."""
    return f"{default_lock_file()}:{os.getpid()}"


def tagged_processes() -> dict[int, str]:
    """Every living process that another run under the same node lock launched, as pid -> command."""
    domain, own = f"{TAG}={default_lock_file()}:".encode(), f"{TAG}={tag()}".encode()
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
            if not any(e.startswith(domain) and e != own for e in environment):
                continue
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue  # it died meanwhile, or belongs to somebody else
        if command:
            found[int(entry.name)] = command[:120]
    return found


class MemoryLedger:
    """GPU memory and shared-memory segments before a launch, to be found again after it.

    On a CPU the memory of a process that no longer exists is free by the kernel's own account; what can outlive it is
    a segment in /dev/shm. On a GPU the driver frees late, and not always.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._gpu_mib = self._used_mib()
        self._segments = self._own_segments()

    def _used_mib(self) -> dict[int, int]:
        return {gpu.index: gpu.used_mib for gpu in read_gpus()} if self._profile.needs_gpu else {}

    def _own_segments(self) -> set[str]:
        if not _SHM.is_dir():
            return set()
        names = set()
        for entry in _SHM.iterdir():
            try:
                if entry.stat().st_uid == os.getuid():
                    names.add(entry.name)
            except FileNotFoundError:
                continue
        return names

    def require_back(self) -> None:
        """Return when all is as before.

        Raises:
            LeftoverError: it is not, within the profile's ``deadlines.memory_back_s``.
        """
        end = time.monotonic() + self._profile.deadlines.memory_back_s
        while problems := self._problems():
            if time.monotonic() > end:
                raise LeftoverError(
                    f"after the server was stopped, {'; '.join(problems)}: nothing more is launched", phase="stop"
                )
            time.sleep(0.2)

    def _problems(self) -> list[str]:
        tolerance = self._profile.memory_back_tolerance_mib
        problems = [
            f"GPU {index} holds {used} MiB, {self._gpu_mib.get(index, 0)} MiB before the launch"
            for index, used in self._used_mib().items()
            if used > self._gpu_mib.get(index, 0) + tolerance
        ]
        if not self._profile.needs_gpu:
            problems += [f"{_SHM / name} is left" for name in sorted(self._own_segments() - self._segments)]
        return problems
