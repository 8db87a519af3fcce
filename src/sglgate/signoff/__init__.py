"""Two runs side by side, and whether the second may replace the first."""

from sglgate.signoff.dossier import Acceptance, Decision, Dossier, accept, build, kept_acceptances
from sglgate.signoff.join import Item, Kind
from sglgate.signoff.side import Side, read_side

__all__ = [
    "Acceptance",
    "Decision",
    "Dossier",
    "Item",
    "Kind",
    "Side",
    "accept",
    "build",
    "kept_acceptances",
    "read_side",
]
