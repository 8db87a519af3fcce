"""Parts of a whole as one bar: as wide as its place, each part with a letter that its legend repeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sglgate.report.pictures.svg import element, picture, text

HEIGHT = 22
_TONES = 9
#: Narrower than this share there is no place for a letter.
_LETTERED = 0.03


@dataclass(frozen=True)
class Part:
    """``amount`` in the unit of the whole; ``letter`` and colour follow from ``place`` in the legend (from 0)."""

    place: int
    name: str
    amount: float
    is_open: bool = False
    """Only possibly there: drawn hatched."""

    @property
    def letter(self) -> str:
        """``A`` for the first place."""
        return chr(ord("A") + self.place % 26)


def bar(label: str, parts: Sequence[Part], whole: float) -> str:
    """The bar; parts of no amount are left out, and so is what lies beyond the whole.

    In percent, so that letters keep their shape at every width.
    """
    drawn, begin = [], 0.0
    for part in parts:
        share = min(part.amount / whole, 1 - begin) if whole > 0 and part.amount > 0 else 0.0
        if share > 0:
            drawn.append(_part(part, begin, share))
            begin += share
    return picture(label, *drawn, class_="bar", width="100%", height=HEIGHT)


def swatch(place: int) -> str:
    """The sign of a part in a legend: its colour and letter."""
    part = Part(place, "", 1)
    return element("svg", _part(part, 0, 1), class_="swatch", width=18, height=18, aria_hidden="true")


def _part(part: Part, begin: float, share: float) -> str:
    tone = f"t{part.place % _TONES + 1}" + (" open" if part.is_open else "")
    found = element("rect", class_=tone, x=f"{begin:.3%}", width=f"{share:.3%}", height="100%")
    if share < _LETTERED:
        return found
    middle = f"{begin + share / 2:.3%}"
    return found + element("text", text(part.letter), x=middle, y="50%", dy="0.35em", text_anchor="middle")
