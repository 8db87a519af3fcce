"""What the bulk scanner looks for: the literals of all signatures, and of what tells how a launch ended."""

from __future__ import annotations

from typing import Final

from sglgate.diagnosis.causes import SIGNATURES
from sglgate.diagnosis.context import REMARK_NEEDLES

# Up to 0.4: the reader does not count these.
OLD_DECODE: Final = "Decode batch. #"
NEEDLES: Final = tuple(
    dict.fromkeys(
        [needle for signature in SIGNATURES for needle in signature.needles]
        + [
            "Error",
            "Exception",
            "SIGTERM received",
            "Shutting down",
            "KeyboardInterrupt",
            "Gracefully exiting",
            'File "',
            'File \\"',
            "Traceback (most recent",
            "OutOfResources",
            "failed with exit",
            "Ignore import error when loading",
            # Titles, and what hardly a sentence goes without; a program prints these rarely.
            "# ",
            "Bug]",
            OLD_DECODE,
            " the ",
            " when ",
            " with ",
            " and ",
            " my ",
            " it ",
            " I ",
            *REMARK_NEEDLES,
        ]
    )
)
