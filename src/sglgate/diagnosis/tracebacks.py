"""The lines of a traceback as Python, faulthandler and those who paste them write it."""

# A pattern that is broken over lines cannot be searched for.
# ruff: noqa: E501
from __future__ import annotations

import re
from typing import Final

# A frame of C++ (TVM's) has its whole signature.
FRAME: Final = re.compile(r'^\s*File "(?P<path>[^"]+)", line \d+, in (?P<function>\S+)(?: [^"]*::[^"]*|\(.*)?\s*$')
# faulthandler's own form, innermost frame first.
FAULT_FRAME: Final = re.compile(r'^\s*File "(?P<path>[^"]+)", line \d+ in (?P<function>\S+)\s*$')
# A dump of a process that still runs (py-spy), innermost frame first: ``    replay (npu_graph_runner.py:82)``.
STACK_FRAME: Final = re.compile(r"^\s*(?P<function>[\w<>.]+) \((?P<path>[\w./<>~+-]+\.pyx?):\d+\)\s*$")
STACK_THREAD: Final = re.compile(r'^\s*Thread (?:\S+ )?\((?:idle|active)[\w+]*\)(?:: "(?P<name>[^"]*)")?')
EXCEPTION: Final = re.compile(
    r"^(?:\[rank\d+\]:\s*)?(?:[A-Za-z_]\w*\.)*(?P<type>[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Timeout|Failure)|OutOfResources|Exception)"
    r"(?:: (?P<message>.*)|:?$)"
)
# Under a traceback's frames any class name at the margin ends it: zmq.error.Again, NVMLError_GpuIsLost.
EXCEPTION_UNDER_FRAMES: Final = re.compile(r"^(?:[A-Za-z_]\w*\.)*(?P<type>[A-Z]\w+)(?:: (?P<message>.*)|:?$)")
# An exception told in the middle of a sentence or behind another program's prefix.
QUOTED: Final = re.compile(r"(?<![\w'\"/])(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): (?=\S)")
# A traceback that was folded into one line, by a form that dropped its newlines or by JSON that escaped them.
_FOLDED: Final = re.compile(
    r'Traceback \(most recent call last\):(?: {1,}(?:\(\w[\w.:]* pid=\d+(?:, ip=[\d.]+)?\) +)?|\\n\s*)File \\?"'
)
_FOLDS: Final = re.compile(
    r'\\n|\s{1,80}(?=File \\?"[^"]+", line \d+, in )|(?<=[\s)])(?=(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): )|\s{1,80}(?=(?:During|The above|Traceback)\b)'
)
_FOLDED_FRAME: Final = re.compile(r'(File "[^"]+", line \d+, in [\w<>.]+)')
# Ray's word in front of each line, which stands in the middle of a line that was folded.
_WORKER: Final = re.compile(r"\s\(\w[\w.:]* pid=\d+(?:, ip=[\d.]+)?\)\s")
_MAX_FOLDED: Final = 100_000


def unfold(text: str) -> list[str]:
    """The lines of a folded traceback, frames indented, with the source code that followed them on lines of its own."""
    text = _WORKER.sub(" ", text.replace('\\"', '"'))
    found: list[str] = []
    for piece in map(str.strip, _FOLDS.split(text)):
        frame = _FOLDED_FRAME.match(piece)
        if frame:
            found += [f"  {frame[1]}", f"    {piece[frame.end() :].strip()}"]
        elif piece:
            found.append(piece)
    return found


def is_folded(text: str) -> bool:
    """Whether a line holds a whole traceback."""
    return _FOLDED.search(text) is not None and len(text) < _MAX_FOLDED


def short(path: str) -> str:
    """The path from the package on, so that patterns need not know where a Python is installed."""
    path = path.replace("\\", "/").replace(" ", "_")
    if "sglang/srt/" in path:
        return path[path.rindex("sglang/srt/") :]
    if path.startswith("...") and "srt/" in path:
        return "sglang/" + path[path.rindex("srt/") :]
    for marker in ("site-packages/", "dist-packages/", "/python/sglang/"):
        if marker in path:
            return ("sglang/" if marker == "/python/sglang/" else "") + path.rsplit(marker, 1)[1]
    return path
