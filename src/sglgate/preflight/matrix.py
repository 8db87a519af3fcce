"""Bandwidth of every ordered pair of GPUs as one SVG: a row writes, a column receives; a broken pair is struck out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from xml.sax.saxutils import escape

_CELL: Final = 64
_LEFT: Final = 56
_TOP: Final = 64


def peer_matrix(pairs: Mapping[str, Mapping[str, Any]], gpus: int, title: str) -> str:
    """The picture as text. Darker is faster, relative to the fastest pair."""
    side = gpus * _CELL
    speeds = [pair["gb_per_s"] for pair in pairs.values() if pair.get("gb_per_s")]
    fastest = max(speeds, default=1.0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + side + 16} {_TOP + side + 28}" role="img" '
        f'font-family="sans-serif" font-size="12" text-anchor="middle">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_LEFT + side + 16}" height="{_TOP + side + 28}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="22" font-size="15" text-anchor="start">{escape(title)}</text>',
        f'<text x="{_LEFT}" y="{_TOP + side + 18}" text-anchor="start" fill="#555">GB/s (us for 8 bytes); '
        "from the row's GPU to the column's</text>",
    ]
    for index in range(gpus):
        middle = index * _CELL + _CELL / 2
        parts.append(f'<text x="{_LEFT + middle}" y="{_TOP - 10}">GPU {index}</text>')
        parts.append(f'<text x="{_LEFT - 28}" y="{_TOP + middle + 4}">GPU {index}</text>')
    for source in range(gpus):
        for target in range(gpus):
            parts += _cell(pairs.get(f"{source}>{target}"), source, target, fastest)
    return "\n".join([*parts, "</svg>"])


def _cell(pair: Mapping[str, Any] | None, source: int, target: int, fastest: float) -> list[str]:
    x, y = _LEFT + target * _CELL, _TOP + source * _CELL
    box = f'<rect x="{x}" y="{y}" width="{_CELL - 2}" height="{_CELL - 2}"'
    if source == target:
        return [f'{box} fill="#eee"/>']
    if pair is None or not pair.get("gb_per_s"):
        return [f'{box} fill="#fff" stroke="#b3261e"/>', f'<text x="{x + 31}" y="{y + 36}" fill="#b3261e">?</text>']
    share = pair["gb_per_s"] / fastest
    broken = any(pair.get(way) for way in ("copy", "kernel_write", "kernel_read", "error"))
    ink = "#fff" if share > 0.6 else "#123"
    shown = [
        f'{box} fill="#0b6e99" fill-opacity="{share:.2f}"/>',
        f'<text x="{x + 31}" y="{y + 28}" fill="{ink}">{pair["gb_per_s"]:.1f}</text>',
    ]
    if pair.get("small_copy_us") is not None:
        shown.append(f'<text x="{x + 31}" y="{y + 46}" fill="{ink}" font-size="10">{pair["small_copy_us"]:.1f}</text>')
    if broken:
        shown.append(f'<path d="M{x} {y}l{_CELL - 2} {_CELL - 2}" stroke="#b3261e" stroke-width="4"/>')
    return shown
