"""Commands in on stdin, answers out on the first stdout, one JSON object a line.

The worker must never outlive the suite: the pipe from the parent is read by a thread of its own, and its
end ends the process at once, whatever the main thread is stuck in. ``faulthandler`` backs that up with a C
thread that needs no GIL: a command that overruns its time by far ends the process with all stacks printed.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any

EXIT_PARENT_GONE = 70


class Channel:
    """The two ends of the pipe to the suite.

    Libraries print to stdout; a line of theirs between two answers would break the protocol. So the pipe is
    moved to a private descriptor and file descriptor 1 is joined to stderr, which the suite keeps as the log.
    """

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
        os.dup2(2, 1)
        self._commands: queue.Queue[dict[str, Any]] = queue.Queue()
        faulthandler.enable(file=sys.stderr)
        # The suite's way to a stack where py-spy is not allowed to attach; runs in C, without the GIL.
        faulthandler.register(signal.SIGUSR1, file=sys.stderr, all_threads=True)
        threading.Thread(target=self._read, name="parent-watch", daemon=True).start()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            for line in sys.stdin:
                self._commands.put(json.loads(line))
        # Not sys.exit: the main thread may be inside a collective that never returns.
        os._exit(EXIT_PARENT_GONE)

    def send(self, **answer: Any) -> None:
        """Write one answer; non-finite floats go out as Python's JSON names for them."""
        self._out.write(json.dumps({"rank": self.rank, **answer}) + "\n")
        self._out.flush()

    def serve(self, handlers: Mapping[str, Callable[..., Any]]) -> None:
        """Answer commands until ``quit``; an exception in a handler is an answer, not an end."""
        while True:
            command = self._commands.get()
            number, name = command["id"], command["command"]
            if name == "quit":
                self.send(id=number, ok=True, result=None)
                return
            faulthandler.dump_traceback_later(command["hard_limit_s"], exit=True, file=sys.stderr)
            try:
                result = handlers[name](**command["arguments"])
            except BaseException as error:
                self.send(
                    id=number,
                    ok=False,
                    error=f"{type(error).__name__}: {error}",
                    trace=traceback.format_exc(),
                )
            else:
                self.send(id=number, ok=True, result=result)
            finally:
                faulthandler.cancel_dump_traceback_later()
