"""The one seam to a node: everything that preflight and telemetry want to know goes through it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sglgate.errors import NotExercisedError, SglgateError
from sglgate.node.facts import ModelFiles, Nvml, ProbeAnswer, Room, Sample, ToolOutput


class NotRecordedError(SglgateError):
    """A recording holds no answer to what was asked: it was made by another version, or cut short."""


class NotReplayableError(NotExercisedError):
    """What was asked needs the live node, or a launch that was not recorded: under a replay it is not exercised."""


class NodeSource(Protocol):
    """A node that can be asked: the real one, or a recorded one. ``None`` and errors are answers, never guesses."""

    def nvml(self) -> Nvml:
        """The GPUs.

        Raises:
            NoGpuError: NVML does not answer.
        """

    def watch(self, count: int, interval_s: float) -> list[Sample]:
        """``count`` samples, ``interval_s`` apart."""

    def text(self, path: str) -> str | None:
        """A file of /proc or /sys; None where it is absent or may not be read."""

    def tool(self, name: str) -> ToolOutput:
        """What one of the commands of ``live.TOOLS`` prints."""

    def room(self, place: str) -> Room | None:
        """Space in /dev/shm (``shm``) or where reports are written (``reports``); None where it cannot be told."""

    def model(self, name: str) -> ModelFiles:
        """The files of a candidate's model."""

    def probe(self, name: str, arguments: Sequence[str], deadline_s: float) -> ProbeAnswer:
        """Run a script of ``stack_side/probes`` in the stack's interpreter."""
