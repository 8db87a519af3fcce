"""The dossier for people: Markdown for a terminal or a step summary, and one self-contained page."""

from __future__ import annotations

from collections.abc import Sequence

from sglgate.report.markdown import cell, table
from sglgate.report.page import template_environment
from sglgate.resolved import Difference
from sglgate.signoff.dossier import Dossier
from sglgate.signoff.intervals import Change
from sglgate.signoff.join import BLOCKING, LACKING, Kind, in_words, shown

_HALF_WIDTH_PX = 80
_PACKAGES = 12


def markdown(dossier: Dossier) -> str:
    """Verdict, items with causes, packages, arguments."""
    old, new = dossier.old, dossier.new
    lines = [
        f"## {dossier.decision}: sglang {cell(old.sglang or '?')} -> {cell(new.sglang or '?')}",
        "",
        f"{dossier.lead}. Runs {cell(old.info.name)} and {cell(new.info.name)}, profile {cell(new.info.profile)}.",
        *(f"- {cell(doubt)}" for doubt in dossier.doubts),
    ]
    if dossier.items:
        rows = [
            (
                item.id if item.kind in BLOCKING | LACKING else "",
                f"accepted by {a.who}: {a.why}" if (a := dossier.acceptances.get(item.id)) else "",
                item.kind,
                item.candidate or "the machine",
                f"{item.suite}/{item.gate}",
                f"{item.old} -> {item.new}",
                "; ".join((item.text, *item.causes)),
            )
            for item in dossier.items
        ]
        lines += ["", *table(("id", "accepted", "what", "candidate", "gate", "from -> to", "why"), rows)]
    if dossier.packages:
        lines += ["", "### Packages", "", *_differences(dossier.packages[:_PACKAGES])]
        if len(dossier.packages) > _PACKAGES:
            lines.append(f"\nand {len(dossier.packages) - _PACKAGES} more in the dossier")
    for candidate, found in dossier.arguments.items():
        lines += ["", f"### Resolved arguments of {cell(candidate)}", "", *_differences(found)]
    return "\n".join(lines) + "\n"


def html(dossier: Dossier) -> str:
    """The page; the same dossier gives the same bytes."""
    environment = template_environment()
    environment.filters["shown"] = shown
    environment.filters["in_words"] = in_words
    environment.filters["bar"] = _bar
    return environment.get_template("signoff.html").render(
        dossier=dossier,
        needs_acceptance=BLOCKING | LACKING,
        on_cards=BLOCKING | LACKING | {Kind.PATH_GAINED},
        half_px=_HALF_WIDTH_PX,
        shown_packages=_PACKAGES,
    )


def _differences(found: Sequence[Difference]) -> list[str]:
    return table(("name", "from", "to", ""), [(d.name, d.old, d.new, d.note) for d in found])


def _bar(change: Change, margin: float) -> dict[str, float]:
    """Pixels of the interval and its point from the left of a strip that spans ten margins on each side."""

    def place(value: float) -> float:
        return round(_HALF_WIDTH_PX * (1 + max(-1.0, min(1.0, value / (10 * margin)))), 1)

    low = change.value if change.low is None else change.low
    high = change.value if change.high is None else change.high
    return {"low": place(low), "high": place(high), "point": place(change.value), "margin": _HALF_WIDTH_PX / 10}
