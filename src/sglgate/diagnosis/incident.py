"""From lines to what failed: exceptions with their frames, hits of signatures, and the marks of a dying server.

One pass, flat memory: of each signature and rank the first and the last few hits are kept.
"""

# A pattern that is broken over lines cannot be searched for.
# ruff: noqa: E501
from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

from sglgate.diagnosis import phases
from sglgate.diagnosis.causes import SIGNATURES
from sglgate.diagnosis.causes.glossary import in_english
from sglgate.diagnosis.context import (
    is_headline,
    is_remark_of_failing,
    is_remark_of_hanging,
    is_remark_of_peer_to_peer,
    is_sentence,
)
from sglgate.diagnosis.model import Hit, Phase, Signature
from sglgate.diagnosis.needles import OLD_DECODE
from sglgate.diagnosis.stacks import Stacks
from sglgate.diagnosis.tracebacks import (
    EXCEPTION,
    EXCEPTION_UNDER_FRAMES,
    FAULT_FRAME,
    FRAME,
    QUOTED,
    is_folded,
    short,
    unfold,
)
from sglgate.logs import StartupRecord
from sglgate.logs.lines import Line

# People paste into issues and chats: a fence, a quotation mark or bold type stands at the margin. A frame keeps its indent.
_MARGIN: Final = re.compile(
    r"^(?:\s{0,3}(?:>\s?|`{1,3}(?:bash|shell|text|log|python|console|batch)?|\*\*))+(?=\S|  File)"
)
# A report's title stands above its log, and tells how that ended.
_TITLE: Final = re.compile(r"^(?:#{1,3} (?:\[[^\]]*\]:?\s*)*|\[(?:Bug|Issue|Help|Question)\]:?\s*)(?=\S)")
_RANK_TAG: Final = re.compile(r"^\[rank(?P<rank>\d+)\]:\s?")
# A logger's own words in front of an exception's message do not make a failure of it.
_HARMLESS: Final = re.compile(
    r"(?i)(?<!NCCL )\bwarn(?:ing)?\b(?!\s+Failed)|Ignore import error|when loading sglang\.srt\.models|fall(?:ing|s)? ?back|will fall back|is disabled|\bdisabled \(|disabling|Setup Custom allreduce failed|"
    r"not a fatal|can be ignored|skipping|(?<!--)Skip(?:ped)?\b|deprecated|DeprecationWarning|Failed to import .* (?:will|using)|"
    r"trying (?:port|another|next)|retry(?:ing)?\b(?! page fault)|^Possible (?:solutions|suggestions)|^\d+\. (?:set|disable)|Exception ignored in|may not be an issue|\w{2}Warning: (?!CUDA initialization: The NVIDIA driver)"
)
# Of these, the ones that no person uses of a failure of his own.
_WARNED: Final = re.compile(
    r"\w{2}Warning\b|\bWARN(?:ING)?\b|Ignore import error|when loading sglang\.srt\.models|(?i:fall(?:ing|s)? ?back|will fall back)|Setup Custom allreduce failed|"
    r"^Possible (?:solutions|suggestions)|^\d+\. (?:set|disable)|Exception ignored in|can be ignored|may not be an issue|(?i:allreduce is disabled|memory capacity is unbalanced\. Some)"
)
# What is left of a dropped module's line where a log begins in its middle.
_FRAGMENT: Final = re.compile(
    r"^(?:[a-z. ]*\bsrt\.)?[a-z_. ]{0,60}\b[a-z_][a-z0-9_]*: (?:No module named|cannot import name|lib[\w.+-]+\.so|\S+: undefined)"
)
# The registry goes on without a model whose module does not import, and later denies its architecture.
_DROPPED: Final = re.compile(r"Ignore import error when loading (?:[\w.]*\.)?(?P<module>\w+)[.:] (?P<error>.+)")
_MAX_FACT: Final = 120
_EMPHASIS: Final = re.compile(r"(?<![\w`])_{1,2}(?=[A-Za-z ]{1,60}_{1,2}(?!\w))|(?<=[A-Za-z ])_{1,2}(?![\w`])|\*\*")
_SENTENCES: Final = re.compile(r"(?<=[.;!?])\s+(?=[A-Z`\"'(])|;\s+|\s-\s")
_PARAGRAPH: Final = 200
# Lines of an excerpt that are read whether they hold a literal or not.
_TOLD_WITHIN: Final = 2_000
# Of a stack, these tell what the process waits for; the ones outside them how it came there.
_INNERMOST: Final = 14
# Lines that only a failing server prints. The first group ends a server that was ready, too.
_DEADLY: Final = re.compile(
    r"hit an exception|Received sigquit|SIGQUIT received|Fatal Python error|Subprocess \S+ \(pid=\d+\) crashed|"
    r"terminate called|Segmentation fault|core dumped|[wW]atchdog timeout \((?![^)]*soft=True)[^)]*\)|"
    r"Watchdog caught collective operation timeout|Initialization failed\. |exited with code|process died|Rank \d+ scheduler is dead|"
    r"^Killed\b|Out of memory: Kill|Bus error|OOMKilled\W{1,4}true|heartbeat monitor timed out|get a response from detokenizer for last"
)
_NEVER: Final = re.compile(r"exit code:? (?:0|-15|-2)\b")
# After one of these the end was asked for: what dies then was meant to.
_ASKED_TO_STOP: Final = re.compile(
    r"SIGTERM received|^(?:INFO: +)?Shutting down$|^KeyboardInterrupt$|Gracefully exiting"
)


@dataclass(slots=True)
class Failure:
    """One exception: its last line, its frames (``path:function``, outermost first) and its phase."""

    line: int
    rank: str
    type: str
    message: str
    frames: tuple[str, ...]
    phase: Phase
    source: str = ""


@dataclass(slots=True)
class _RankState:
    frames: list[str] = field(default_factory=list)
    in_message: bool = False
    message_frames: tuple[str, ...] = ()
    exception_line: int = 0
    frame_line: int = 0
    unraisable: bool = False


@dataclass(slots=True)
class _Kept:
    first: list[Hit] = field(default_factory=list)
    last: deque[Hit] = field(default_factory=lambda: deque(maxlen=3))


class Incident:
    """What one launch's log shows of failing. Feed every interesting line in order."""

    def __init__(self, signatures: Iterable[Signature] = SIGNATURES) -> None:
        self._signatures = tuple(signatures)
        self._by_needle = _by_needle(self._signatures)
        self._told = tuple(signature for signature in self._signatures if signature.told)
        self._cut = tuple(signature for signature in self._signatures if signature.cut)
        self._standing = tuple(signature for signature in self._signatures if signature.stack)
        self.stacks = Stacks()
        self._states: dict[str, _RankState] = {}
        self._hits: dict[tuple[str, str], _Kept] = {}
        self.failures: list[Failure] = []
        self.late_failures: deque[Failure] = deque(maxlen=50)
        self.deadly: list[tuple[int, str, str]] = []
        self.late_deadly: deque[tuple[int, str, str]] = deque(maxlen=20)
        self.asked_to_stop_line: int | None = None
        self.last: tuple[int, str] | None = None
        self.noted_hang = False
        self.noted_peer_to_peer = False
        self.remarked_hang = False
        self.remarked_failure = False
        self.served = False
        self.only_the_programs = False
        self._heard: set[int] = set()
        self.stamped = False
        self.fault_phase: Phase | None = None
        self._fault: tuple[int, str, str] | None = None

    @property
    def hits(self) -> list[Hit]:
        """All kept hits, by line."""
        found = {id(hit): hit for kept in self._hits.values() for hit in (*kept.first, *kept.last)}
        return sorted(found.values(), key=lambda hit: hit.line)

    @property
    def open_phase(self) -> Phase | None:
        """The phase of a traceback that the log ends in."""
        told = [phases.from_frames(state.frames, whole=False) for state in self._states.values() if state.frames]
        return next((phase for phase in told if phase is not None), None)

    def add(self, line: Line, record: StartupRecord) -> None:
        """Look at one line; ``record`` is the launch so far."""
        if is_folded(line.text):
            for at, piece in enumerate(unfold(line.text)):
                self._add(replace(line, text=piece, stamped=line.stamped and at == 0), record)
        else:
            self._add(line, record)

    def _add(self, line: Line, record: StartupRecord) -> None:
        tag = _RANK_TAG.match(line.text)
        text = line.text[tag.end() :] if tag else line.text
        if not line.stamped and text[:1] in " >`*":
            text = _MARGIN.sub("", text)
        self.stamped = self.stamped or line.stamped
        rank = f"TP{tag['rank']}" if tag and not line.stamped and not line.rank else line.rank
        state = self._states.setdefault(rank, _RankState())
        if line.stamped:
            state.in_message = False
        if frame := FRAME.match(text):
            if len(state.frames) < 200:
                state.frames.append(short(frame["path"]) + ":" + frame["function"])
            state.in_message, state.frame_line = False, line.number
            return
        if not line.stamped:
            if line.number < _TOLD_WITHIN:
                self._heard.add(line.number)
            self._remark(text, _TITLE.match(text) is not None or is_sentence(text))
        elif text.startswith(OLD_DECODE):
            self.served = True
        if fault := FAULT_FRAME.match(text):
            place = short(fault["path"]) + ":" + fault["function"]
            self.fault_phase = self.fault_phase or phases.from_frames([place], whole=False)
            self._fault = self._fault or (line.number, rank, place)
            return
        if "Traceback (most recent call last)" in text:
            state.frames, state.in_message = [], False
        if self.asked_to_stop_line is None and _ASKED_TO_STOP.search(text):
            self.asked_to_stop_line = line.number
        state.unraisable = state.unraisable or "Exception ignored in" in text
        self._deadly(line, rank, text)
        exception = None if line.stamped else EXCEPTION.match(text.strip())
        if exception is None and state.frames and not line.stamped:
            exception = EXCEPTION_UNDER_FRAMES.match(text)
        if exception and state.frames and (state.unraisable or state.frames[0].endswith(":__del__")):
            # A destructor's: the interpreter prints it and goes on.
            state.unraisable, state.frames = False, []
            return
        if exception:
            state.message_frames = tuple(state.frames)
            state.in_message, state.exception_line = True, line.number
            state.frames = []
            phase = phases.of(list(state.message_frames), record, rank)
            self._failure(
                Failure(
                    line.number,
                    rank,
                    exception["type"],
                    exception["message"] or "",
                    state.message_frames,
                    phase,
                )
            )
        bare_assert = not line.stamped and bool(state.frames) and text.lstrip().startswith("assert ")
        if text[:1].isspace() and not line.stamped and state.frames and not bare_assert:
            return  # a quoted line of source code speaks of failures without being one
        raised_at = state.exception_line if state.in_message else line.number if bare_assert else 0
        if not line.stamped and not raised_at and (title := _TITLE.match(text)):
            told = text[title.end() :]
            self._match(line, rank, told, state, line.number, record, True, title=True)
            if (inner := QUOTED.search(told)) and inner.start():
                self._match(line, rank, told[inner.start() :], state, line.number, record, True, title=True)
            self._guess(line, rank, told, record, title=True)
            return
        by_nobody = bool(raised_at) or line.stamped or _HARMLESS.search(text) is not None
        quoted = None if by_nobody else QUOTED.search(text)
        by_a_program = bool(raised_at) or line.stamped or _WARNED.search(text) is not None
        if not by_a_program and not state.frames and is_sentence(text):
            self._guess(line, rank, text, record)
        if quoted:
            text, raised_at = text[quoted.start() :], line.number
        self._match(line, rank, text.strip(), state, raised_at, record, quoted is not None)
        if dropped := _DROPPED.search(text):
            self._match(line, rank, dropped["error"], state, line.number, record, False, dropped["module"])

    def _remark(self, text: str, by_a_person: bool) -> None:
        """What a line says that no program wrote: that it hangs, or fails, or that it has to do with peer-to-peer transfers."""
        self.noted_peer_to_peer = self.noted_peer_to_peer or is_remark_of_peer_to_peer(text)
        self.remarked_hang = self.remarked_hang or is_remark_of_hanging(text)
        if by_a_person:
            self.remarked_failure = self.remarked_failure or is_remark_of_failing(in_english(text))

    def look_over(self, lines: list[Line]) -> None:
        """All lines of an excerpt: the stacks in it, and whether it holds the server's own lines and exceptions alone."""
        for line in lines:
            if not line.stamped:
                self.stacks.add(line.number, line.rank, line.text)
        self.only_the_programs = all(
            line.stamped or line.text[:1] in ("", " ", "[") or EXCEPTION.match(line.text.strip()) for line in lines
        )

    def tell(self, line: Line, record: StartupRecord, first: bool) -> None:
        """A line from the head of the log that holds no literal: only a person may have written something of interest.

        The ``first`` line of a report is mostly its title or its first sentence, however short.
        """
        text = _MARGIN.sub("", line.text)
        heard = line.number in self._heard
        if (
            line.stamped
            or _WARNED.search(text)
            or _FRAGMENT.match(text)
            or EXCEPTION.match(text.strip())
            or FRAME.match(text)
        ):
            return
        sentence = is_sentence(text)
        if (heard and sentence) or not (sentence or (first and is_headline(in_english(text)))) or _TITLE.match(text):
            return
        self._remark(text, True)
        self._guess(line, line.rank, text, record)

    def _match(
        self,
        line: Line,
        rank: str,
        text: str,
        state: _RankState,
        raised_at: int,
        record: StartupRecord,
        quoted: bool,
        module: str = "",
        title: bool = False,
    ) -> None:
        present = [index for needle, index in self._by_needle if needle in text]
        candidates = [self._signatures[at] for at in sorted({at for index in present for at in index})]
        if not candidates or (not raised_at and _HARMLESS.search(text)):
            return
        if line.number == 1 and not line.stamped and not module and _FRAGMENT.match(text):
            return
        frames = state.message_frames if state.in_message else tuple(state.frames)
        frames = () if module or title else frames
        phase: Phase | None = None
        for signature in candidates:
            found = signature.match(text, frames)
            if found is None:
                continue
            phase = phase or phases.of(list(frames), record, rank)
            if signature.phases and phase not in signature.phases:
                continue
            facts = {key: value[:_MAX_FACT] for key, value in found.items()}
            self._keep(
                Hit(
                    signature,
                    line.number,
                    rank,
                    phase,
                    text[:2000],
                    raised_at,
                    line.stamped,
                    facts,
                    quoted,
                    bool(frames),
                    module,
                    title,
                )
            )

    def _guess(self, line: Line, rank: str, text: str, record: StartupRecord, title: bool = False) -> None:
        """What a person says of the failure, without the marks of emphasis."""
        text = _EMPHASIS.sub("", in_english(text))
        # What is told of something else in another sentence of a paragraph does not count against it.
        sentences = [piece for piece in _SENTENCES.split(text) if piece] if len(text) > _PARAGRAPH else []
        for signature in self._told:
            tries = (signature.match(piece, ()) for piece in (text, *sentences))
            if (found := next((match for match in tries if match is not None), None)) is not None:
                phase = phases.from_marks(record, rank)
                hit = Hit(signature, line.number, rank, phase, text[:2000], line.number, False, found, True)
                self._keep(replace(hit, title=title))

    def close(self, record: StartupRecord) -> None:
        """The end of the log: a traceback that stands open tells by its innermost frame what was being done."""
        standing = [(state.frame_line, rank, state.frames) for rank, state in self._states.items() if state.frames]
        if self._fault is not None:
            standing.append((*self._fault[:2], [self._fault[2]]))
        for at, rank, frames in standing:
            phase = phases.from_frames(frames, whole=False) or phases.from_marks(record, rank)
            for signature in self._cut:
                if (found := signature.match("", frames)) is not None:
                    self._keep(Hit(signature, at, rank, phase, frames[-1], at, False, found, True, framed=True))

        self._close_stacks(record)

    def _close_stacks(self, record: StartupRecord) -> None:
        """What a process stands in; one that went on to answer after it was looked at stood in nothing."""
        for stack in self.stacks.found:
            if stack.line < (record.last_batch_line or 0) or stack.line < (record.ready_line or 0):
                continue
            frames = stack.frames[-_INNERMOST:]
            phase = phases.from_frames(stack.frames, whole=False) or phases.from_marks(record, stack.rank)
            for signature in self._standing:
                if (found := signature.match("", frames)) is not None:
                    at, text = stack.line, f"stands in {frames[-1]}"
                    self._keep(Hit(signature, at, stack.rank, phase, text, at, False, found, True, framed=True))

    def _keep(self, hit: Hit) -> None:
        kept = self._hits.setdefault((hit.signature.name + hit.module, hit.rank), _Kept())
        if len(kept.first) < 3:
            kept.first.append(hit)
        else:
            kept.last.append(hit)

    def _failure(self, failure: Failure) -> None:
        (self.failures if len(self.failures) < 100 else self.late_failures).append(failure)

    def _deadly(self, line: Line, rank: str, text: str) -> None:
        if _DEADLY.search(text) and not _NEVER.search(text):
            entry = (line.number, rank, text[:500])
            (self.deadly if len(self.deadly) < 100 else self.late_deadly).append(entry)


@cache
def _by_needle(signatures: tuple[Signature, ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Each literal once, with the places of the signatures that look for it."""
    places: dict[str, list[int]] = {}
    for at, signature in enumerate(signatures):
        for needle in signature.needles:
            places.setdefault(needle, []).append(at)
    return tuple((needle, tuple(index)) for needle, index in places.items())
