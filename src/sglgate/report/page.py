"""The run as one self-contained HTML page: no script, no font, no network; a policy in the page forbids them."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sglgate.naming import visible
from sglgate.stack import write_atomically

if TYPE_CHECKING:
    import jinja2

_TEMPLATES: Final = Path(__file__).parent / "templates"
#: A name longer than this is cut on the page; a text, at the second.
_NAME_LIMIT: Final = 120
_TEXT_LIMIT: Final = 4000


def write_html(folder: Path) -> Path:
    """Render ``index.html`` of a run from its evidence.

    Raises:
        SglgateError: the page cannot be written.
    """
    page = folder / "index.html"
    write_atomically(page, render(folder))
    return page


def template_environment() -> jinja2.Environment:
    """Templates of ``report/templates``: everything is escaped, a name that is not there is an error."""
    # Deferred: only a run that ends needs a template engine, every collection would pay for it.
    import jinja2
    from markupsafe import Markup

    from sglgate.report.excerpts import href

    def finalize(value: Any) -> Any:
        is_plain = isinstance(value, str) and not isinstance(value, Markup)
        return visible(value, _TEXT_LIMIT) if is_plain else value

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        finalize=finalize,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = _figure
    environment.filters["seconds"] = lambda s: f"{s:.1f} s"
    environment.filters["name"] = lambda text: visible(str(text), _NAME_LIMIT)
    environment.filters["drawn"] = Markup
    environment.filters["href"] = href
    return environment


def render(folder: Path) -> str:
    """The page as text; the same evidence gives the same bytes."""
    from markupsafe import Markup

    from sglgate.report.content import page_content

    css = "\n".join((_TEMPLATES / name).read_text(encoding="utf-8") for name in ("style.css", "pictures.css"))
    return (
        template_environment()
        .get_template("index.html")
        .render(
            **page_content(folder),
            css=Markup(css),  # noqa: S704 - our own files
            css_digest=base64.b64encode(hashlib.sha256(css.encode()).digest()).decode(),
        )
    )


def _figure(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, tuple):
        return " … ".join(map(_figure, value))
    if isinstance(value, float):
        return f"{value:.6g}"
    # Thin spaces: a seven-digit token count is unreadable without.
    return f"{value:,}".replace(",", "\u202f") if isinstance(value, int) and not isinstance(value, bool) else str(value)
