"""The causes, as data. To add a wording: one ``sig(...)`` here and one log in tests/diagnosis/corpus."""

from __future__ import annotations

from typing import Final

from sglgate.diagnosis.causes import configuration, fabric, guesses, kernels, memory, places
from sglgate.diagnosis.model import Cause, Signature

CAUSES: Final[dict[str, Cause]] = {
    cause.name: cause
    for group in (memory.CAUSES, fabric.CAUSES, kernels.CAUSES, configuration.CAUSES)
    for cause in group
}
SIGNATURES: Final[tuple[Signature, ...]] = (
    *(s for cause in CAUSES.values() for s in cause.signatures),
    *places.PLACES,
    *places.BARE,
    *places.CUT,
    *places.STANDS,
    *guesses.TOLD,
)
