"""A fraction-against-tokens plot, as SVG and as characters: the window shaded, the default and the asked
fraction marked."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from sglgate.kv.window import Point, Window

_WIDTH, _HEIGHT = 760, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 86, 24, 44, 64


def svg(window: Window, title: str, asked: float | None = None) -> str:
    """The plot as one standalone SVG document."""
    points = window.points
    low, high = points[0].fraction, points[-1].fraction
    most = max(1, max(point.tokens_max for point in points))

    def x(fraction: float) -> float:
        return _LEFT + (fraction - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def y(tokens: float) -> float:
        return _HEIGHT - _BOTTOM - tokens / most * (_HEIGHT - _TOP - _BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" font-family="system-ui, sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="22" font-size="15" fill="#1d1d1f">{escape(title)}</text>',
    ]
    if not window.empty and window.lowest is not None:
        first, last = x(max(low, window.lowest)), x(min(high, window.highest))
        parts.append(
            f'<rect x="{first:.1f}" y="{_TOP}" width="{max(0.0, last - first):.1f}" '
            f'height="{_HEIGHT - _TOP - _BOTTOM}" fill="#d7efdc"/>'
        )
    for tokens in _ticks(most):
        level = f"{y(tokens):.1f}"
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{level}" y2="{level}" '
            'stroke="#e3e3e6"/>'
            f'<text x="{_LEFT - 8}" y="{y(tokens) + 4:.1f}" text-anchor="end" '
            f'fill="#55555a">{_short(tokens)}</text>'
        )
    for step in range(6):
        fraction = low + (high - low) * step / 5
        parts.append(
            f'<text x="{x(fraction):.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle" '
            f'fill="#55555a">{fraction:.3f}</text>'
        )
    band = " ".join(f"{x(p.fraction):.1f},{y(p.tokens_max):.1f}" for p in points)
    back = " ".join(f"{x(p.fraction):.1f},{y(p.tokens_min):.1f}" for p in reversed(points))
    line = " ".join(f"{x(p.fraction):.1f},{y(p.tokens):.1f}" for p in points)
    parts += [
        f'<polygon points="{band} {back}" fill="#9db8e8" opacity="0.6"/>',
        f'<polyline points="{line}" fill="none" stroke="#1f4fa3" stroke-width="2"/>',
    ]
    for fraction, word, colour in _marks(window, asked):
        if low <= fraction <= high:
            place = f"{x(fraction):.1f}"
            parts.append(
                f'<line x1="{place}" x2="{place}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" '
                f'stroke="{colour}" stroke-dasharray="4 3"/>'
                f'<text x="{x(fraction) - 4:.1f}" y="{_TOP + 12}" text-anchor="end" fill="{colour}">'
                f"{escape(word)} {fraction:.3f}</text>"
            )
    middle = (_TOP + _HEIGHT - _BOTTOM) // 2
    parts += [
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2:.0f}" y="{_HEIGHT - 24}" text-anchor="middle" '
        f'fill="#1d1d1f">mem_fraction_static</text>',
        f'<text x="{_LEFT}" y="{_HEIGHT - 8}" fill="#55555a" font-size="11">',
        f"{escape(_caption(window))}</text>",
        f'<text x="18" y="{middle}" fill="#1d1d1f" text-anchor="middle" '
        f'transform="rotate(-90 18 {middle})">tokens per rank</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def terminal(window: Window, asked: float | None = None, rows: int = 12) -> str:
    """The plot in characters: ``#`` the pool inside the window, ``.`` outside, a letter under each mark."""
    points = window.points
    most = max(1, max(point.tokens for point in points))
    lines = []
    for row in range(rows, 0, -1):
        label = _short(most * row / rows) if row in (rows, rows // 2, 1) else ""
        cells = "".join(_cell(window, point, most * (row - 0.5) / rows) for point in points)
        lines.append(f"{label:>8} |{cells}")
    low, high = points[0].fraction, points[-1].fraction
    lines.append(" " * 9 + "+" + "-" * len(points))
    marks = [" "] * len(points)
    legend = []
    for fraction, word, _ in _marks(window, asked):
        place = round((fraction - low) / (high - low) * (len(points) - 1))
        if 0 <= place < len(points):
            marks[place] = word[0].upper()
            legend.append(f"{word[0].upper()} = {word} {fraction:.3f}")
    lines.append(" " * 10 + "".join(marks))
    lines.append(" " * 10 + f"{low:.3f}" + f"{high:.3f}".rjust(len(points) - 5))
    lines.append(f"  {_caption(window)}")
    if legend:
        lines.append("  " + ", ".join(legend))
    return "\n".join(lines)


def _cell(window: Window, point: Point, level: float) -> str:
    if point.tokens < level:
        return " "
    inside = not window.empty and window.lowest is not None and window.lowest <= point.fraction <= window.highest
    return "#" if inside else "."


def _marks(window: Window, asked: float | None) -> list[tuple[float, str, str]]:
    marks = []
    if window.default_high is not None:
        marks.append((window.default_high, "default", "#7a4fb5"))
    if asked is not None:
        marks.append((asked, "asked", "#c0392b"))
    return marks


def _caption(window: Window) -> str:
    if window.lowest is None:
        return f"no fraction holds one request of {window.request_tokens} tokens"
    words = "window" if not window.empty else "no fraction works: the pool needs"
    return (
        f"{words} {window.lowest:.3f} to {window.highest:.3f} "
        f"(one request of {window.request_tokens} tokens; {window.headroom_gib:.1f} GiB kept free)"
    )


def _ticks(most: int) -> Sequence[float]:
    step = 10 ** max(0, len(str(most)) - 1)
    while most / step < 3:
        step /= 2
    return [step * i for i in range(int(most / step) + 1)]


def _short(tokens: float) -> str:
    if tokens >= 1e6:
        return f"{tokens / 1e6:.4g}M"
    return f"{tokens / 1e3:.4g}k" if tokens >= 1e3 else f"{tokens:.0f}"
