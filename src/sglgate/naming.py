"""Names from files and logs, made harmless for paths, XML and readers."""

from __future__ import annotations

import hashlib
import re

_LIMIT = 100
#: XML 1.0 has no way to write these, not even escaped; a single one makes the whole file unreadable.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: Controls, and what turns the direction of the text around it: a name must not show as another one.
_NOT_SEEN = re.compile("[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


def file_name(text: str) -> str:
    """A file name without separators, control characters or leading dots; different texts stay different."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", text).lstrip(".-")[:_LIMIT]
    if safe == text:
        return safe
    return f"{safe or 'name'}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def xml_text(text: str) -> str:
    """``text`` with every character that XML forbids shown as an escape."""
    return _NOT_XML.sub(lambda m: f"\\x{ord(m[0]):02x}", text)


def visible(text: str, limit: int) -> str:
    """``text`` with every character shown that a reader would not see or that XML forbids, cut after ``limit``."""
    text = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return _NOT_SEEN.sub(lambda m: f"\\u{ord(m[0]):04x}", xml_text(text))
