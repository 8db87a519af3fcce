"""Regular expressions compiled on first use.

The tables of log formats and causes hold some 240; a launch meets the words of a few, and compiling all of them would
cost every collection of the suite more than reading a log does.
"""

from __future__ import annotations

import functools
import re


@functools.cache
def compiled(pattern: str) -> re.Pattern[str]:
    """The compiled ``pattern``; kept without limit, as the tables are constants."""
    return re.compile(pattern)
