"""Which GPUs (or cores) this process may use: leases, so that two servers run side by side and never on one GPU.

Slots are the numbers of the machine's GPUs, or of the cores on a machine without. Nobody waits while holding: what is
held is given up first, so that two who both want everything cannot block each other.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from sglgate.launch.node_lock import default_lock_file
from sglgate.launch.seats import Person, Queue, Seat, take_any


def leases_folder() -> Path:
    """Where the machine's leases lie: beside its lock."""
    lock = default_lock_file()
    return lock.with_name(f"{lock.name}.leases")


def slot_environment(slots: tuple[int, ...], needs_gpu: bool) -> dict[str, str]:
    """What keeps a process on its slots; empty where it may use all."""
    if not slots:
        return {}
    listed = ",".join(map(str, slots))
    # The order of NVML, which the leases count in; CUDA's own order is by speed.
    return (
        {"CUDA_VISIBLE_DEVICES": listed, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if needs_gpu else {"SGLGATE_CORES": listed}
    )


class Grounds:
    """The slots that this process holds.

    Args:
        slots: how many the machine has; 0 for a process that has the machine to itself and needs no lease.
        tell: called with one line when a wait begins.
    """

    def __init__(self, slots: int = 0, tell: Callable[[str], object] = print) -> None:
        self._seats = [Seat(leases_folder() / f"slot-{number}") for number in range(slots)]
        self._queue = Queue(leases_folder() / "queue")
        self._tell = tell
        self._held: tuple[int, ...] = ()
        self._whole = False

    @property
    def are_leased(self) -> bool:
        """Whether others may use this machine beside this process."""
        return bool(self._seats)

    @property
    def held(self) -> tuple[int, ...]:
        """Slot numbers; empty where there are no leases, or while none is held."""
        return self._held

    def need(self, count: int, purpose: str) -> tuple[int, ...]:
        """Hold ``count`` slots, or all if there are fewer; waits for ever. Returns those to use, empty for any."""
        if self._whole:
            return ()  # as alone: what is measured must not depend on how it was leased
        count = min(count, len(self._seats))
        if len(self._held) < count:
            self._give_up()
            # Neighbours, aligned: on two sockets half of the GPUs are nearer to each other than to the rest.
            groups = [range(first, first + count) for first in range(0, len(self._seats) - count + 1, count)]
            choices = [[self._seats[number] for number in group] for group in groups]
            taken = take_any(choices, self._queue, purpose, None, self._tell)
            self._held = tuple(self._seats.index(seat) for seat in taken)
        return self._held[:count]

    def give_up(self) -> None:
        """Let others have what is held, unless the whole machine is held on purpose."""
        if not self._whole:
            self._give_up()

    def _give_up(self) -> None:
        for number in self._held:
            self._seats[number].give_up()
        self._held = ()

    @contextlib.contextmanager
    def whole(self, purpose: str) -> Iterator[None]:
        """Every slot, for what must have the machine to itself. Nothing may run on the held ones by then."""
        self.need(len(self._seats), purpose)
        self._whole = True
        try:
            yield
        finally:
            self._whole = False
            self._give_up()


def read_leases() -> tuple[dict[str, Person | str], list[Person]]:
    """Who holds which slot, and who waits."""
    folder = leases_folder()
    holders = {path.name: holder for path in sorted(folder.glob("slot-*")) if (holder := Seat(path).holder())}
    return holders, Queue(folder / "queue").waiting()


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))
