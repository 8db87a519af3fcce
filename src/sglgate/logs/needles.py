"""A set of literal strings as one bytes pattern.

Two things make it quick: every literal is entered at its rarest letter (capitals and punctuation are rare in
log text, ``e`` is not), and literals that share a beginning share a branch.
"""

from __future__ import annotations

import re
from functools import cache

# How often a byte starts something in a server log, roughly; unlisted bytes are rare.
_COMMON = {byte: rank for rank, byte in enumerate(b"zqxjkvbwyfgmpcudlhrsnioate", start=1)}
_COMMON.update({ord(char): 40 for char in " 0123456789.,:-_=[]()/'\"\n"})
_MINIMUM_TAIL = 9


def _entry(literal: bytes) -> bytes:
    """The tail of ``literal`` that starts at its rarest byte and is still long enough to be telling."""
    last = max(1, len(literal) - _MINIMUM_TAIL + 1)
    start = min(range(last), key=lambda at: _COMMON.get(literal[at], 0))
    return literal[start:]


def _branches(tails: list[bytes]) -> bytes:
    """A pattern for any of ``tails``, with common beginnings written once."""
    if b"" in tails:
        return b""  # one literal ends here: whatever follows it is a hit too
    groups: dict[int, list[bytes]] = {}
    for tail in tails:
        groups.setdefault(tail[0], []).append(tail[1:])
    parts = [re.escape(bytes([first])) + _branches(rest) for first, rest in sorted(groups.items())]
    return parts[0] if len(parts) == 1 else b"(?:" + b"|".join(parts) + b")"


@cache
def compile_needles(literals: tuple[str, ...]) -> re.Pattern[bytes]:
    """One pattern that hits in every line which holds one of ``literals`` (case-sensitive, not empty)."""
    tails = sorted({_entry(literal.encode()) for literal in literals})
    if not tails:
        raise ValueError("no literal to look for")
    return re.compile(_branches(tails))
