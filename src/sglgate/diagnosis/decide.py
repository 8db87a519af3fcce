"""What an incident means: pure functions from hits, failures and marks to one cause.

The order of judgement: did it serve and go on serving; which hits belong to the end and were not survived;
the lowest grade among these; the earliest line of that grade. The cause is thus the first thing that would
have to change, and what other ranks print afterwards does not count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sglgate.diagnosis.context import Context
from sglgate.diagnosis.incident import Failure, Incident
from sglgate.diagnosis.model import Confidence, Grade, Hit, Outcome, Phase
from sglgate.diagnosis.oom import parse_oom
from sglgate.diagnosis.phases import from_marks
from sglgate.diagnosis.subject import Subject
from sglgate.logs import StartupRecord

# A traceback of 8 ranks, some 60 lines each, stands before the line that says that the server died.
_BEFORE_DEATH_LINES: Final = 600
# A reader of a pipe gets these when the process at its other end is gone.
_FOLLOWING: Final = frozenset({"KeyboardInterrupt", "EOFError", "BrokenPipeError", "ConnectionResetError"})
# A bare card shows 97 % and more; the CUDA context and NCCL's buffers take the rest.
_EMPTY_ENOUGH: Final = 0.8
# A health check may fail under load; only if no batch followed did the server stand still.
_RECOVERABLE: Final = "get a response from detokenizer"
_SOON_AFTER: Final = 10
_CHAIN_LINES: Final = 250
_COLLECTIVE: Final = re.compile(r"(?i)nccl|all_?reduce|all_?gather")
_DENIED: Final = frozenset({"model_unsupported.architecture", "model_unsupported.known"})
_COLLECTIVE_FAILED: Final = frozenset({"nccl_error.last_warning", "nccl_error.told"})
_OF_A_TENSOR: Final = frozenset({"engine_bug.tensor", "engine_bug.told_tensor"})
# A line of source code and its marks may stand above an exception whose frames are cut away.
_FIRST_LINES: Final = 3
_OF_A_DESTRUCTOR: Final = ("AttributeError", "TypeError")
# What else a report tells of goes before these: a watchdog fires after something, and a crash comes of something.
_LAST_GUESSES: Final = {"watchdog_hang": 1, "engine_bug": 2}
_FAMILY_LETTERS: Final = 4
_TOLD_OOM: Final = {
    Phase.WEIGHTS: "weights_oom",
    Phase.GRAPH_CAPTURE: "graph_capture_oom",
    Phase.WARMUP: "runtime_oom",
    Phase.SERVING: "runtime_oom",
}
_OOM_CAUSES: Final = frozenset({"weights_oom", "graph_capture_oom", "runtime_oom", "gpu_memory_held"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement, before it is put into words."""

    outcome: Outcome
    phase: Phase
    cause: str
    confidence: Confidence
    hit: Hit | None = None
    failure: Failure | None = None
    hints: tuple[Hit, ...] = ()
    note: str = ""
    subject: Subject | None = None


def decide(incident: Incident, record: StartupRecord, context: Context) -> Verdict:
    """Judge one launch."""
    deadly = [*incident.deadly, *incident.late_deadly]
    failures = [*incident.failures, *incident.late_failures]
    hits = incident.hits
    if (stop := incident.asked_to_stop_line) is not None:
        deadly = [entry for entry in deadly if entry[0] < stop]
        failures = [failure for failure in failures if failure.line < stop]
        hits = [hit for hit in hits if hit.line < stop]
    if record.ready_line is not None:
        served = record.last_batch_line or 0
        deaths = [
            entry
            for entry in deadly
            if entry[0] > record.ready_line and not (_RECOVERABLE in entry[2] and entry[0] < served)
        ]
        if not deaths:
            if context.hanging:
                return Verdict("hung", Phase.SERVING, "unknown", "unknown", note="ready_then_hung")
            told = _choose([hit for hit in hits if hit.title])
            if told is not None:  # the title over the log tells how it ended
                return Verdict("failed", Phase.SERVING, told.cause, "likely", hit=told)
            return Verdict("ready", Phase.SERVING, "none", "likely" if incident.remarked_failure else "certain")
        since = max(record.ready_line, deaths[0][0] - _BEFORE_DEATH_LINES)
        hits = [hit for hit in hits if hit.line > since or hit.title]
        failures = [failure for failure in failures if failure.line > since]
    hints = tuple(hit for hit in hits if hit.grade is Grade.HINT)
    real = [hit for hit in hits if hit.grade is not Grade.HINT]
    lasting = [hit for hit in real if not _survived(hit, record)]
    survived = {hit.exception_line for hit in real} - {hit.exception_line for hit in lasting}
    if lasting or not (deadly or any(failure.line not in survived for failure in failures)):
        real = lasting
    real = [
        hit for hit in real if not _killed_afterwards(hit, deadly, failures) and not _killed_for_hanging(hit, incident)
    ]
    real = [hit for hit in real if not _end_of_something_unseen(hit, incident, deadly)]
    chosen = _choose(real)
    told_hang = incident.remarked_hang and incident.noted_peer_to_peer
    if chosen is None or (chosen.grade is Grade.GUESS and told_hang and not failures):
        return _without_cause(incident, record, context, deadly, failures, hints)
    if (reason := _dropped_module(chosen, hints)) is not None:
        return Verdict("failed", chosen.phase, reason.cause, "likely", hit=reason, hints=hints, note="dropped_module")
    cause, confidence, note = _refine(chosen, real, hints, record)
    if chosen.signature.name == "shm_too_small.bus" and Phase.WEIGHTS in (chosen.phase, incident.fault_phase):
        # A mapped file that cannot be read ends the same way, and says as little.
        return Verdict(
            "failed", Phase.WEIGHTS, "unknown", "unknown", hit=chosen, hints=hints, note="bus_error_in_weights"
        )
    stands = chosen.signature.stack or cause in ("watchdog_hang", "p2p_iommu_hang")
    outcome: Outcome = "hung" if stands else "failed"
    if chosen.quoted or _doubtful(chosen, real, failures, deadly, record):
        confidence = _weaker(confidence)
    phase = Phase.ARGUMENTS if cause == "bad_flag" and chosen.phase is Phase.START else chosen.phase
    return Verdict(outcome, phase, cause, confidence, hit=chosen, hints=hints, note=note)


# Left open on purpose: what is known of these contradicts itself.
_LEFT_OPEN: Final = frozenset({"oom_somewhere", "bus_error_in_weights", "kv_pool_oom", "ready_then_hung"})


def tells_of_failure(verdict: Verdict, incident: Incident, launches: int) -> bool:
    """Whether a log that no rule judged is a report of a failure, or shows a dying server; a cut log is neither."""
    if verdict.note in _LEFT_OPEN or launches > 1:
        return False
    by_a_person = incident.remarked_failure or incident.remarked_hang
    return by_a_person or bool(incident.deadly) or bool(incident.stacks.found and not incident.stamped)


def _choose(hits: list[Hit]) -> Hit | None:
    able = [hit for hit in hits if hit.grade < Grade.CASCADE]
    return min(
        able,
        key=lambda hit: (
            hit.grade,
            _LAST_GUESSES.get(hit.cause, 0) if hit.grade is Grade.GUESS else 0,
            not hit.exception,
            hit.quoted,
            hit.line,
            hit.signature.confidence != "certain",
            hit.signature.frames is None,
        ),
        default=None,
    )


def _dropped_module(denied: Hit, hints: tuple[Hit, ...]) -> Hit | None:
    """Why the module of a denied architecture did not import, if the log tells it."""
    if denied.signature.name not in _DENIED:
        return None
    words = re.findall(r"\w+", denied.facts.get("architectures", "").lower())
    found = []
    for hint in hints:
        module = hint.module.lower().replace("_", "")
        shared = max((_shared_letters(word, module) for word in words), default=0)
        # Every release has the known architectures; of another one only its very own module can tell.
        if shared >= (
            _FAMILY_LETTERS if denied.signature.name.endswith(".known") else max(_FAMILY_LETTERS, len(module))
        ):
            found.append((-shared, hint.signature.grade, hint.line, hint))
    return min(found, key=lambda entry: entry[:3])[3] if found else None


def _shared_letters(word: str, other: str) -> int:
    pairs = zip(word, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(word), len(other)))


def _survived(hit: Hit, record: StartupRecord) -> bool:
    """Whether the rank that printed it went on with its launch: then it was no failure, whatever it says."""
    if hit.title or hit.signature.told:
        return False  # whoever tells of it knows how it ended
    own = record.ranks.get(hit.rank)
    later = sum(1 for mark in own.marks if mark.line > hit.line) if own is not None else 0
    if hit.rank == "" and len(record.ranks) > 1 and hit.phase in (Phase.START, Phase.IMPORT, Phase.CONFIG):
        later += sum(1 for rank in record.ranks.values() for mark in rank.marks if mark.line > hit.line)
    return later > 0


def _killed_afterwards(hit: Hit, deadly: list[tuple[int, str, str]], failures: list[Failure]) -> bool:
    """A kill after an exception or the parent's own signal is the clean-up, not the host's memory."""
    if hit.signature.name not in ("host_oom_killed.signal", "host_oom_killed.shell"):
        return False
    if hit.line == 1:
        return True  # the log begins with the end: what led to it is not there
    if any(failure.line < hit.line and failure.type not in _FOLLOWING for failure in failures):
        return True
    return any(line < hit.line and ("sigquit" in text or "SIGQUIT received" in text) for line, _, text in deadly)


def _end_of_something_unseen(hit: Hit, incident: Incident, deadly: list[tuple[int, str, str]]) -> bool:
    """The log begins with an exception's last line and nothing tells that it ended anything.

    So may a log that was cut in the middle of what a destructor printed. Only a vague cause is given up for it: an
    exception that names its cause does so without its frames, too.
    """
    vague = hit.signature.name in ("engine_bug.told", "engine_bug.bare") and hit.text.startswith(_OF_A_DESTRUCTOR)
    first = hit.line <= _FIRST_LINES and hit.exception and not hit.framed and not hit.quoted
    return vague and first and not deadly and incident.only_the_programs


def _killed_for_hanging(hit: Hit, incident: Incident) -> bool:
    """A kill in a report of a hang, or after NCCL's own failure, is what ended the hang."""
    if hit.signature.name not in ("host_oom_killed.signal", "host_oom_killed.shell"):
        return False
    others = [other for other in incident.hits if other.line <= hit.line and other is not hit]
    return incident.remarked_hang or any(other.signature.name in _COLLECTIVE_FAILED for other in others)


def _refine(chosen: Hit, hits: list[Hit], hints: tuple[Hit, ...], record: StartupRecord) -> tuple[str, Confidence, str]:
    """Cases in which the wording alone misleads."""
    cause, confidence = chosen.cause, chosen.signature.confidence
    if cause in _OOM_CAUSES and chosen.signature.name != "gpu_memory_held.unbalanced":
        figures = parse_oom(chosen.text)
        foreign = sum(gib for _, gib in figures.others)
        if foreign and (figures.total_gib is None or foreign > 0.05 * figures.total_gib):
            return "gpu_memory_held", "likely", "foreign_processes"
        if figures.total_gib is not None and _little_was_free(record, chosen.rank, figures.total_gib):
            return "gpu_memory_held", "likely", "little_was_free"
        if figures.unaccounted_gib is not None:
            return "gpu_memory_held", "likely", "unaccounted_memory"
    if chosen.signature.name == "weights_oom.early":
        told = _told_phase(hits, hints)
        if told and (not chosen.framed or told[0] == "told"):
            return told[1], "likely", "told"
        if not chosen.framed and not any(
            h.signature.name == "weights_oom.loading" and h.line < chosen.line + _SOON_AFTER for h in hints
        ):
            # Nothing says where the server was, and the remedies of the phases contradict each other.
            return "unknown", "unknown", "oom_somewhere"
    if chosen.signature.name in _OF_A_TENSOR and any(
        h.signature.name == "spec_draft_mismatch.told_head" for h in hints
    ):
        return "spec_draft_mismatch", "likely", "told_draft"
    if chosen.signature.name == "gpu_memory_held.unbalanced" and _draft_starting(chosen, record):
        return "engine_bug", "likely", "unbalanced_at_draft"
    if cause == "kv_budget_exhausted" and any(h.signature.name == "gpu_memory_held.unbalanced" for h in hints):
        return "gpu_memory_held", "likely", "unbalanced_before"
    rivals = [
        hit
        for hit in hits
        if hit.cause != cause
        and hit.exception
        and hit.grade <= min(chosen.grade, Grade.SYMPTOM)
        and (hit.line != chosen.line or hit.signature.confidence == "certain")
    ]
    if rivals and confidence == "certain":
        confidence = "likely"
    return cause, confidence, ""


def _told_phase(hits: list[Hit], hints: tuple[Hit, ...]) -> tuple[str, str] | None:
    """The cause of an out-of-memory whose phase a person tells, or a load that somebody gave the server."""
    told = [hit.cause for hit in hits if hit.signature.told and hit.cause in _OOM_CAUSES]
    if told:
        return "told", told[0]
    loaded = any(hint.signature.name in ("runtime_oom.told_load", "runtime_oom.load") for hint in hints)
    return ("load", "runtime_oom") if loaded else None


def _little_was_free(record: StartupRecord, rank: str, total_gib: float) -> bool:
    """Whether the card was far from empty before the first weights: torch does not always name the holder."""
    own = record.ranks.get(rank)
    free = own.avail_gib_at("weights_begin") if own is not None else None
    return free is not None and free < _EMPTY_ENOUGH * total_gib


def _doubtful(
    chosen: Hit,
    hits: list[Hit],
    failures: list[Failure],
    deadly: list[tuple[int, str, str]],
    record: StartupRecord,
) -> bool:
    """Whether the log leaves room for another reading, so that nothing in it is certain."""
    # What follows from the cause, or is too weak to stand against it, leaves no doubt.
    explained = {hit.exception_line for hit in hits if hit.cause == chosen.cause or hit.grade >= Grade.WEAK}
    open_questions = [f for f in failures if f.type not in _FOLLOWING and f.line not in explained]
    if not chosen.exception:
        ended = record.ready_line is not None or bool(deadly) or bool(failures)
        mere_message = chosen.stamped and "ERROR" not in chosen.text
        return bool(open_questions) or (mere_message and not ended)
    # An exception above it in the same chain that means something else, or that nobody knows, came first.
    above = range(chosen.exception_line - _CHAIN_LINES, chosen.exception_line)
    if any(failure.line in above and failure.rank == chosen.rank for failure in open_questions):
        return True
    if chosen.cause in _OOM_CAUSES and chosen.signature.phases and not chosen.framed:
        return True  # the phase, and with it the remedy, is only taken from the last mark
    return chosen.cause == "illegal_memory_access" and bool(_COLLECTIVE.search(chosen.text))


def _draft_starting(hit: Hit, record: StartupRecord) -> bool:
    if hit.title:  # the log below it shows how far it came
        marks = sorted((mark.line, mark.name) for rank in record.ranks.values() for mark in rank.marks)
        names = [name for _, name in marks]
        return "graphs_end" in names and names[-1] == "dist_init_begin"
    own = record.ranks.get(hit.rank)
    return own is not None and any(load.end_line is not None and load.end_line < hit.line for load in own.weights)


def _told_out_of_memory(incident: Incident, hints: tuple[Hit, ...], phase: Phase) -> Verdict | None:
    """Somebody tells of an out-of-memory; the traceback that is cut, or the last mark, tells in which phase."""
    hit = next((hint for hint in hints if hint.signature.name == "weights_oom.told_anywhere"), None)
    phase = incident.open_phase or phase
    cause = _TOLD_OOM.get(phase)
    if hit is None or cause is None:
        return None
    return Verdict("failed", phase, cause, "likely", hit=hit, hints=hints, note="told")


def _without_cause(
    incident: Incident,
    record: StartupRecord,
    context: Context,
    deadly: list[tuple[int, str, str]],
    failures: list[Failure],
    hints: tuple[Hit, ...],
) -> Verdict:
    """Nothing names a cause: a failure that the rules do not know, a hang, or a log that just ends."""
    if failures or deadly or (context.exit_code not in (None, 0) and not context.hanging):
        failure = min(
            failures,
            key=lambda item: (item.type in _FOLLOWING, item.line),
            default=None,
        )
        phase = failure.phase if failure else from_marks(record, deadly[0][1] if deadly else "")
        if context.exit_code in (-9, 137) and not failures:
            return Verdict("failed", phase, "host_oom_killed", "likely", note="exit_code")
        note = "kv_pool_oom" if failure and "OutOfMemory" in failure.type else ""
        return Verdict("failed", phase, "unknown", "unknown", failure=failure, hints=hints, note=note)
    phase = from_marks(record, "")
    if (told := _told_out_of_memory(incident, hints, phase)) is not None:
        return told
    if incident.remarked_hang and incident.noted_peer_to_peer:
        return Verdict("hung", phase, "p2p_iommu_hang", "likely", hints=hints, note="told")
    interrupted = incident.asked_to_stop_line is not None and record.ready_line is None
    if context.hanging or incident.noted_hang or (interrupted and phase is Phase.DIST_INIT):
        world = _world_size(record)
        if world != 1 and (phase is Phase.DIST_INIT or context.peer_to_peer):
            return Verdict("hung", phase, "p2p_iommu_hang", "likely", hints=hints, note="silent")
        return Verdict("hung", phase, "unknown", "unknown", hints=hints, note="silent")
    if not incident.remarked_failure and context.exit_code is None:
        if incident.served or record.batches.decode:
            return Verdict("ready", Phase.SERVING, "none", "likely")
        if record.http_up_line is not None:
            # Nothing failed up to here; whether its own warm-up succeeds is not shown.
            return Verdict("cut", phase, "none", "likely")
    return Verdict("cut", phase, "unknown", "unknown", hints=hints)


def _world_size(record: StartupRecord) -> int | None:
    if record.server_args is not None:
        size = record.server_args.get("tp_size", 1), record.server_args.get("pp_size", 1)
        if all(isinstance(item, int) for item in size):
            return int(size[0]) * int(size[1])
    stamped = [rank for rank in record.ranks if rank]
    return len(stamped) if len(stamped) > 1 else None


def _weaker(confidence: Confidence) -> Confidence:
    return "likely" if confidence == "certain" else confidence
