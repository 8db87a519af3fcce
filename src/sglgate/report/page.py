"""The run as one self-contained HTML page: no script, no font, no network; a policy in the page forbids them."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sglgate.errors import SglgateError
from sglgate.naming import visible
from sglgate.report.arguments import argument_pairs
from sglgate.report.board import MACHINE, build_board, run_verdict
from sglgate.report.excerpts import href, inside
from sglgate.report.figures import figures
from sglgate.report.launches import launches
from sglgate.report.memory import memory_maps
from sglgate.report.pictures.bars import swatch
from sglgate.report.pictures.interval import interval_picture
from sglgate.report.pictures.svg import shorten
from sglgate.report.reds import explain_reds
from sglgate.report.telemetry import TELEMETRY, read_telemetry
from sglgate.run import EVIDENCE, RUN, read_evidence, read_run
from sglgate.stack import HEADLINE_PACKAGES, write_atomically

if TYPE_CHECKING:
    import jinja2

#: A name longer than this is cut on the page; a text, at the second.
_NAME_LIMIT: Final = 120
_TEXT_LIMIT: Final = 4000
#: Up to this size a file travels inside the page, for whoever has the page alone.
_INLINE_BYTES: Final = 1 << 19


def write_html(folder: Path) -> Path:
    """Render ``index.html`` of a run from its evidence.

    Raises:
        SglgateError: the page cannot be written.
    """
    page = folder / "index.html"
    try:
        write_atomically(page, render(folder))
    except OSError as error:
        raise SglgateError(f"the page cannot be written: {page}: {error.strerror}") from None
    return page


def template_environment() -> jinja2.Environment:
    """Templates of ``report/templates``: everything is escaped, a name that is not there is an error."""
    # Deferred: only a run that ends needs a template engine, every collection would pay for it.
    import jinja2
    from markupsafe import Markup

    def finalize(value: Any) -> Any:
        is_plain = isinstance(value, str) and not isinstance(value, Markup)
        return visible(shorten(value, _TEXT_LIMIT)) if is_plain else value

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("sglgate.report"),
        autoescape=True,
        finalize=finalize,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = _figure
    environment.filters["seconds"] = lambda s: f"{s:.1f} s"
    environment.filters["name"] = lambda text: shorten(str(text), _NAME_LIMIT)
    environment.filters["svg"] = Markup
    environment.filters["href"] = href
    return environment


def render(folder: Path) -> str:
    """The page as text; the same evidence gives the same bytes."""
    from markupsafe import Markup

    info, evidence = read_run(folder), read_evidence(folder)
    board = build_board(evidence)
    telemetry = read_telemetry(folder)
    css = "\n".join((files(__package__) / "templates" / name).read_text() for name in ("style.css", "pictures.css"))
    return (
        template_environment()
        .get_template("index.html")
        .render(
            info=info,
            board=board,
            machine=MACHINE,
            verdict=run_verdict(info, board),
            headline=_headline(info.stack),
            reds=explain_reds(folder, board),
            interval_picture=interval_picture,
            swatch=swatch,
            own_log=lambda log: inside(folder, log) is not None,
            figures=figures(evidence),
            memory=memory_maps(evidence),
            launches=launches(info, evidence, telemetry),
            telemetry=telemetry,
            arguments=argument_pairs(info),
            files=[file for name in (EVIDENCE, RUN, TELEMETRY) if (file := _file(folder / name))],
            evidence_count=len(evidence),
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


def _headline(stack: dict[str, Any]) -> dict[str, str]:
    packages = stack.get("packages", {})
    found = {name: packages[name] for name in HEADLINE_PACKAGES if name in packages}
    if stack:
        found |= {"python": stack["python"], "torch CUDA": stack["torch_build"].get("cuda", "none")}
    return found


def _file(path: Path) -> tuple[str, str] | None:
    """Name and, where it is small, the whole file as a link; None where there is no such file."""
    try:
        size = path.stat().st_size
        inline = base64.b64encode(path.read_bytes()).decode() if size <= _INLINE_BYTES else ""
    except OSError:
        return None
    return path.name, f"data:application/octet-stream;base64,{inline}" if inline else ""
