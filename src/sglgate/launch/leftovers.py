"""What a stopped server may leave behind, and the proof that it did not."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from pathlib import Path
from typing import Final

from sglgate.config import Profile
from sglgate.launch.errors import LeftoverError
from sglgate.launch.node_lock import default_lock_file
from sglgate.node.host import owner
from sglgate.node.nvml import read_samples

#: Stands in the environment of every process of a launch, whatever its session and parent.
TAG: Final = "SGLGATE_LAUNCH"
_KEEPERS_NEED_S: Final = 5.0
#: Names that SGLang, torch, NCCL and Python give to segments. Whatever else lies there is somebody's file.
_SEGMENT: Final = re.compile(r"(sglang_|psm_|sem\.|torch_|nccl-|cuda\.shm)")
_SHM: Final = Path("/dev/shm")  # noqa: S108 - listed, never written


def tag() -> str:
    """This run's tag. It names the node lock too: runs under another lock are not ours to find."""
    return f"{default_lock_file()}:{owner()}"


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


def require_no_others() -> None:
    """Return when no process of an earlier launch lives.

    The lock of a run that was killed is free at once; its keepers need a moment more to end their servers.

    Raises:
        LeftoverError: one still lives after that moment; each is named.
    """
    end = time.monotonic() + _KEEPERS_NEED_S
    while others := tagged_processes():
        if time.monotonic() > end:
            listed = "; ".join(f"pid {pid}: {command}" for pid, command in others.items())
            raise LeftoverError(f"processes of an earlier launch still live: {listed}", phase="process")
        time.sleep(0.1)


class MemoryLedger:
    """GPU memory and shared-memory segments before a launch, to be found again after it.

    The memory of a process that no longer exists is free by the kernel's own account. Two things can outlive it: GPU
    memory, which a driver frees late and not always, and segments in /dev/shm (SGLang 0.5.23 ends without unlinking
    its ``sglang_loads_*.shm``).

    Args:
        profile: what "free" means.
        gpus: those that the server may use, all if empty; what happens on others is somebody else's.
    """

    def __init__(self, profile: Profile, gpus: tuple[int, ...] = ()) -> None:
        self._profile, self._gpus = profile, gpus
        self._gpu_mib = self._used_mib()
        self._segments = self._own_segments()

    def _used_mib(self) -> dict[int, int]:
        if not self._profile.needs_gpu:
            return {}
        return {gpu.index: gpu.used_mib for gpu in read_samples() if not self._gpus or gpu.index in self._gpus}

    def _own_segments(self) -> set[str]:
        if not _SHM.is_dir():
            return set()
        names = set()
        for entry in _SHM.iterdir():
            try:
                info = entry.stat()
                if info.st_uid == os.getuid() and stat.S_ISREG(info.st_mode) and _SEGMENT.match(entry.name):
                    names.add(entry.name)
            except FileNotFoundError:
                continue
        return names

    def require_back(self) -> list[str]:
        """Remove the segments that nobody uses any more, and return their names once all memory is as before.

        Raises:
            LeftoverError: GPU memory is not back within the profile's ``deadlines.memory_back_s``.
        """
        swept = self._sweep()
        end = time.monotonic() + self._profile.deadlines.memory_back_s
        while problems := self._still_held():
            if time.monotonic() > end:
                raise LeftoverError(
                    f"after the server was stopped, {'; '.join(problems)}: nothing more is launched", phase="stop"
                )
            time.sleep(0.2)
        return swept

    def _sweep(self) -> list[str]:
        # A segment that came since the launch and that no process maps is the dead server's; one that is mapped
        # belongs to somebody else's program.
        orphans = sorted(self._own_segments() - self._segments - _mapped_segments())
        for name in orphans:
            with contextlib.suppress(OSError):
                (_SHM / name).unlink()
        return orphans

    def _still_held(self) -> list[str]:
        tolerance = self._profile.memory_back_tolerance_mib
        return [
            f"GPU {index} holds {used} MiB, {self._gpu_mib.get(index, 0)} MiB before the launch"
            for index, used in self._used_mib().items()
            if used > self._gpu_mib.get(index, 0) + tolerance
        ]


def _mapped_segments() -> set[str]:
    """Names of the segments that a living process maps or holds open."""
    prefix = f"{_SHM}/"
    names: set[str] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            for line in (entry / "maps").read_text(errors="replace").splitlines():
                names.add(line.partition(prefix)[2])
            for fd in (entry / "fd").iterdir():
                names.add(str(fd.readlink()).partition(prefix)[2])
    return names
