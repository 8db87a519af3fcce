"""The words of the diagnosis: signatures, causes, hits and the answer. Data only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Literal

from sglgate.patterns import compiled

Confidence = Literal["certain", "likely", "unknown"]
Outcome = Literal["ready", "failed", "hung", "cut"]


class Phase(StrEnum):
    """How far the launch had come, in order."""

    START = "start"
    ARGUMENTS = "arguments"
    IMPORT = "import"
    CONFIG = "config"
    DIST_INIT = "dist_init"
    WEIGHTS = "weights"
    KV_POOL = "kv_pool"
    GRAPH_CAPTURE = "graph_capture"
    WARMUP = "warmup"
    SERVING = "serving"


class Grade(IntEnum):
    """How much a signature says about what has to change. The lowest grade of an incident decides, then the
    earliest line.

    ROOT names the cause by itself. SYMPTOM names it unless a root stands in the same launch. WEAK may well
    follow from another rank (NCCL, a signal) or is told by an exception's type and place alone. GUESS is for
    what no wording is known of: an exception's place, a person's words. CASCADE follows from a failure
    elsewhere and names nothing. HINT is no failure, but shifts the reading of one (a warning, a setting).
    """

    ROOT = 1
    SYMPTOM = 2
    WEAK = 3
    GUESS = 4
    CASCADE = 5
    HINT = 6


@dataclass(frozen=True, slots=True)
class Signature:
    """One wording of one cause.

    Attributes:
        name: unique; ``<cause>.<word>``.
        needles: literals; the line must hold one (this is what the bulk scanner looks for).
        pattern: must also match the line, if given; its named groups become facts.
        unless: must not match the line.
        frames: must match the traceback that led here (``file:function`` joined by spaces), if given.
        phases: only in these phases, if given.
        raised: the line must be an exception's; outside one the same words are only a HINT (a warning).
        told: looked for in a report's titles and sentences only, all of them: it has no needles.
        cut: looked for in the frames of a traceback that ends without its exception: it has no needles.
        stack: looked for in the innermost frames of a dump of a process that stands still: it has no needles.
        grade, confidence: see above.
        remedy, avoid: instead of those of the cause, if given.
    """

    name: str
    needles: tuple[str, ...]
    pattern: str | None = None
    unless: str | None = None
    frames: str | None = None
    phases: frozenset[Phase] = frozenset()
    raised: bool = False
    told: bool = False
    cut: bool = False
    stack: bool = False
    grade: Grade = Grade.ROOT
    confidence: Confidence = "certain"
    remedy: str = ""
    avoid: str = ""

    @property
    def cause(self) -> str:
        """The cause that this is a wording of."""
        return self.name.partition(".")[0]

    def match(self, text: str, frames: Sequence[str]) -> dict[str, str] | None:
        """The facts (named groups) of a line that holds a needle, or None where it is no such wording."""
        found = compiled(self.pattern).search(text) if self.pattern else None
        if self.pattern and found is None:
            return None
        if self.unless and compiled(self.unless).search(text):
            return None
        if self.frames and not compiled(self.frames).search(" ".join(frames)):
            return None
        return {key: value for key, value in found.groupdict().items() if value} if found else {}


def sig(
    name: str,
    *needles: str,
    pattern: str | None = None,
    unless: str | None = None,
    frames: str | None = None,
    phases: tuple[Phase, ...] = (),
    raised: bool = False,
    told: bool = False,
    cut: bool = False,
    stack: bool = False,
    grade: Grade = Grade.ROOT,
    confidence: Confidence = "certain",
    remedy: str = "",
    avoid: str = "",
) -> Signature:
    """A :class:`Signature` from plain strings."""
    return Signature(
        name,
        needles,
        pattern,
        unless,
        frames,
        frozenset(phases),
        raised,
        told,
        cut,
        stack,
        grade,
        confidence,
        remedy,
        avoid,
    )


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause of a failed launch: what it means, what to change, what not to, and how it shows."""

    name: str
    meaning: str
    remedy: str
    avoid: str
    signatures: tuple[Signature, ...] = ()


@dataclass(frozen=True, slots=True)
class Hit:
    """One signature found in one line.

    ``exception_line`` is where the exception begins that the line belongs to, 0 where it belongs to none.
    ``quoted``: the exception stands in the middle of an unstamped line, as somebody told it.
    ``framed``: a traceback's frames stand above it. ``module``: the model's module that was dropped because
    its import failed with this. ``title``: it stands in a heading over the log.
    """

    signature: Signature
    line: int
    rank: str
    phase: Phase
    text: str
    exception_line: int
    stamped: bool
    facts: dict[str, str] = field(default_factory=dict)
    quoted: bool = False
    framed: bool = False
    module: str = ""
    title: bool = False

    @property
    def exception(self) -> bool:
        """Whether the line is (part of) an exception rather than a log message."""
        return self.exception_line > 0

    @property
    def cause(self) -> str:
        """The cause that it speaks for."""
        return self.signature.cause

    @property
    def grade(self) -> Grade:
        """That of the signature; HINT where an exception was asked for and this is none, or was survived."""
        mere_hint = self.module or (self.signature.raised and not self.exception)
        return Grade.HINT if mere_hint else self.signature.grade


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """A line of the log (1-based; 0 for a line of the context), without secrets."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The answer for one log; :meth:`to_json` is the contract of ``sglgate diagnose --json``."""

    file: str
    outcome: Outcome
    phase: str
    cause: str
    confidence: Confidence
    evidence: tuple[EvidenceLine, ...]
    remedy: str
    avoid: str
    facts: dict[str, Any]

    @property
    def healthy(self) -> bool:
        """Whether the server came up and nothing says that it failed later."""
        return self.outcome == "ready" and self.cause == "none"

    def to_json(self) -> dict[str, Any]:
        """The contract's object."""
        return {
            "file": self.file,
            "outcome": self.outcome,
            "phase": self.phase,
            "cause": self.cause,
            "confidence": self.confidence,
            "evidence": [{"line": item.line, "text": item.text} for item in self.evidence],
            "remedy": self.remedy,
            "avoid": self.avoid,
            "facts": self.facts,
        }

    def summary_lines(self, width: int = 200) -> list[str]:
        """A few lines for a test's failure text: the verdict, the evidence, what to change, what not to."""
        lines = [f"{self.outcome} in phase {self.phase}: {self.cause} ({self.confidence})"]
        for item in self.evidence[:3]:
            where = f"line {item.line}" if item.line else "context"
            lines.append(f"  {where}: {item.text[:width]}")
        if self.remedy:
            lines.append(f"  change: {self.remedy}")
        if self.avoid:
            lines.append(f"  avoid: {self.avoid}")
        return lines
