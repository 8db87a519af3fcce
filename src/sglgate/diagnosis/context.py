"""What is known beside the log: how the process ended, whether it lived, dmesg, who holds the cards."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sglgate.errors import MisuseError

_HANGING: Final = re.compile(
    r"(?i)\b(?:hangs?|hung|hanging|stuck|timed? ?out|no progress|never returns?|freezes?|frozen|deadlock)\b"
    r"|卡住|hang住"
)
_REMARK: Final = re.compile(r"(?i)\b(?:hangs?|hung|hanging|stuck|deadlocks?)\b|卡住|hang住")
# What tells that a person wrote of a hang, or of peer-to-peer transfers, anywhere in a report.
REMARK_NEEDLES: Final = (" hang ", " hangs", " hung", "to hang", " stuck", "deadlock", "IOMMU", "ACS", "P2P_DISABLE")
_NVIDIA_SMI: Final = re.compile(r"\|\s+(?P<gpu>\d+)\s+\S+\s+\S+\s+(?P<pid>\d+)\s+\S+\s+(?P<name>\S+)\s+(?P<mib>\d+)MiB")


_FAILING: Final = re.compile(
    r"(?i)\b(?:fail\w*|crash\w*|errors?|exceptions?|killed|abort\w*|died|dies|unable|broken|segfault|panic\w*|OOM"
    r"|cannot|can't|won't|(?:doesn't|does not|don't|not) (?:work|start|load|support|run|compile)\w*"
    r"|not (?:available|found|built)|unsupported|mismatch\w*|missing|incompatib\w+|refused"
    r"|garbage|gibberish|regression|50[0234])\b"
)
_PEER_TO_PEER: Final = re.compile(
    r"(?i)\bIOMMU\b|\bACS\b|P2P_DISABLE|P2P_LEVEL|peer-to-peer|\bP2P\b.{0,40}(?:hang|stuck)"
)


_SENTENCE_WORDS: Final = 5
_LONG_REMARK_WORDS: Final = 80
_LONGEST_SENTENCE: Final = 1500
_SMALL_WORDS: Final = re.compile(
    r"(?i)\b(?:the|is|are|was|when|while|if|i|we|it|its|with|after|before|this|that|but|my|our|in|on|of|at|to|by|and)\b"
)
_SMALL_WORDS_OF_A_SENTENCE: Final = 3
# Of these, which a program prints too, it takes more.
_OTHER_WORDS: Final = re.compile(
    r"(?i)\b(?:a|an|as|because|due|since|does|do|has|have|had|will|would|can|cannot|not|for|from|using|which|there|here|also|only|even|be|been|so|then|or|up|all|any|some|same|during|while|result|however|each|where|without|instead|fails?|crash(?:es|ed)?)\b"
)
_WORDS_OF_A_SENTENCE: Final = 5
_HEADLINE_WORDS: Final = 3
# No program's punctuation, and a full stop.
_PLAIN: Final = re.compile(r"^[A-Za-z`][^=:\[\]{}<>|]{30,}\.$")
_CJK: Final = re.compile(r"[\u4e00-\u9fff]{4}")
# Checklists, tables, source code and the messages of programs have small words, too.
_PROGRAM: Final = re.compile(
    r"^\s*(?:[-*] \[.\]|\[[A-Z]?\d|\||[{}<]|#|//|\$|>>>|\w+\()|NCCL (?:INFO|WARN)|\b(?:INFO|WARN(?:ING)?|ERROR|DEBUG)\b"
    r"|Possible solutions|\d+[.:]\d+[.:]\d+.*\||[\w]\(.*\)[:;]$"
)


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds memory on a card."""

    pid: int
    gib: float
    name: str = ""
    gpu: int | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """Facts from outside the log; every field may be unknown.

    Attributes:
        exit_code: of the launching process; negative for a signal, as Python gives it.
        alive: the process still lived when the log ended.
        timed_out: whoever waited for the server gave up.
        kv_bytes_per_token: size of one token in the KV pool of one rank, from the predictor.
        holders: processes on the cards before the launch.
        text: everything else (dmesg, nvidia-smi, notes), read for the same signatures as the log.
    """

    exit_code: int | None = None
    alive: bool | None = None
    timed_out: bool | None = None
    kv_bytes_per_token: int | None = None
    holders: tuple[Holder, ...] = ()
    text: str = ""

    @property
    def hanging(self) -> bool:
        """Whether the server was seen to stand still rather than to end."""
        if self.exit_code is not None and not self.timed_out:
            return False
        return bool(self.timed_out or self.alive or _HANGING.search(self.text))

    @property
    def peer_to_peer(self) -> bool:
        """Whether the notes connect it with peer-to-peer transfers, the IOMMU or ACS."""
        return _PEER_TO_PEER.search(self.text) is not None


def is_remark_of_peer_to_peer(text: str) -> bool:
    """Whether a line that no program wrote speaks of peer-to-peer transfers, the IOMMU or ACS."""
    by_a_program = "NCCL INFO" in text or "NCCL WARN" in text
    return len(text.split()) >= _SENTENCE_WORDS and not by_a_program and _PEER_TO_PEER.search(text) is not None


def is_remark_of_hanging(text: str) -> bool:
    """Whether a line was written by a person who watched it hang.

    NCCL, too, warns of what "can lead to ... hang", and a log speaks of timeouts all the time.
    """
    by_a_person = 3 <= len(text.split()) < _LONG_REMARK_WORDS and "WARN" not in text and "or hang" not in text
    return by_a_person and _REMARK.search(text) is not None


def is_remark_of_failing(text: str) -> bool:
    """Whether a title or sentence says that something went wrong."""
    return _HANGING.search(text) is not None or _FAILING.search(text) is not None


def is_sentence(text: str) -> bool:
    """Whether a person wrote the line: a sentence, not a program's message, a command or a setting."""
    if len(text) > _LONGEST_SENTENCE or _PROGRAM.search(text):
        return False
    small = len(set(_SMALL_WORDS.findall(text))) + (_PLAIN.match(text) is not None)
    if small and small + len({word.lower() for word in _OTHER_WORDS.findall(text)}) >= _WORDS_OF_A_SENTENCE:
        return True
    return small >= _SMALL_WORDS_OF_A_SENTENCE or _CJK.search(text) is not None


def is_headline(text: str) -> bool:
    """Whether the first line of a log may be a report's: some words of plain text."""
    words = re.findall(r"(?<![\w./:=-])[A-Za-z][a-z]+(?![\w/=]|[.:]\w)", text)
    return len(text) <= _LONGEST_SENTENCE and not _PROGRAM.search(text) and len(words) >= _HEADLINE_WORDS


def parse_context(context: Mapping[str, Any] | str | None) -> Context:
    """A context from a mapping (the keys of :class:`Context`, ``gpu_processes``), JSON text, or free text."""
    if context is None:
        return Context()
    if isinstance(context, str):
        try:
            loaded = json.loads(context)
        except ValueError:
            return Context(text=context, holders=_from_nvidia_smi(context))
        return parse_context(loaded) if isinstance(loaded, dict) else Context(text=context)
    known = dict(context)
    text = "\n".join(str(value) for value in known.values() if isinstance(value, str))
    holders = tuple(_holder(item) for item in known.get("gpu_processes", known.get("holders", ())))
    return Context(
        exit_code=_integer(known, "exit_code"),
        alive=_boolean(known, "alive"),
        timed_out=_boolean(known, "timed_out"),
        kv_bytes_per_token=_integer(known, "kv_bytes_per_token"),
        holders=holders or _from_nvidia_smi(text),
        text=text,
    )


def read_context(path: Path) -> Context:
    """The context in a file, JSON or text; MisuseError where it cannot be read."""
    try:
        return parse_context(path.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise MisuseError(f"cannot read the context: {error.strerror}", file=path) from None


def _integer(known: Mapping[str, Any], key: str) -> int | None:
    value = known.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise MisuseError("not an integer", file="context", key=key, value=value)
    return value


def _boolean(known: Mapping[str, Any], key: str) -> bool | None:
    value = known.get(key)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):  # seconds after which somebody gave up
        return value > 0
    raise MisuseError("neither true nor false", file="context", key=key, value=value)


def _holder(item: Any) -> Holder:
    if not isinstance(item, Mapping) or not isinstance(item.get("pid"), int):
        raise MisuseError(
            "not a process",
            file="context",
            key="gpu_processes",
            value=item,
            expected='{"pid": 1, "gib": 2.5, "name": "python"}',
        )
    gib = item.get("gib", item.get("used_gib", 0.0))
    return Holder(item["pid"], float(gib), str(item.get("name", "")), item.get("gpu"))


def _from_nvidia_smi(text: str) -> tuple[Holder, ...]:
    return tuple(
        Holder(int(m["pid"]), int(m["mib"]) / 1024, m["name"], int(m["gpu"])) for m in _NVIDIA_SMI.finditer(text)
    )
