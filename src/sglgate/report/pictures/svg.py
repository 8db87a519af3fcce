"""SVG as text."""

from __future__ import annotations

from html import escape

from sglgate.naming import visible

_LIMIT = 300
Attribute = str | float | int


def element(name: str, *inside: str, **attributes: Attribute) -> str:
    """``<name …>inside</name>``; ``class_`` and ``stroke_width`` are written ``class`` and ``stroke-width``.

    Attributes are escaped here, what is inside must be: it is elements, or comes from :func:`text`.
    """
    shown = "".join(f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"' for key, value in attributes.items())
    return f"<{name}{shown}>{''.join(inside)}</{name}>" if inside else f"<{name}{shown}/>"


def text(words: object) -> str:
    """Words for the inside of an element."""
    return escape(visible(str(words), _LIMIT))


def picture(label: str, *inside: str, **attributes: Attribute) -> str:
    """A whole ``<svg>``; ``label`` says in words what is seen in it."""
    return element("svg", *inside, role="img", aria_label=visible(label, _LIMIT), **attributes)


def _value(value: Attribute) -> str:
    if isinstance(value, str):
        return escape(value)
    return f"{value:.1f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
