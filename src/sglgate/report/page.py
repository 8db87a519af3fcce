"""The run as one self-contained HTML page: no script from elsewhere, no font, no network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sglgate.errors import SglgateError
from sglgate.report.board import MACHINE, build_board, run_verdict
from sglgate.report.text import history_lines
from sglgate.run import read_evidence, read_run
from sglgate.stack import HEADLINE_PACKAGES, write_atomically

if TYPE_CHECKING:
    import jinja2

_TAIL_LINES: Final = 40
_TAIL_BYTES: Final = 64 << 10


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

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("sglgate.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = _figure
    environment.filters["seconds"] = lambda s: f"{s:.1f} s"
    return environment


def render(folder: Path) -> str:
    """The page as text; the same evidence gives the same bytes."""
    info, evidence = read_run(folder), read_evidence(folder)
    board = build_board(evidence)
    return (
        template_environment()
        .get_template("index.html")
        .render(
            info=info,
            board=board,
            machine=MACHINE,
            verdict=run_verdict(info, board),
            headline=_headline(info.stack),
            history=history_lines(info),
            tails={log: _tail(folder / log) for _, _, cell in board.reds() for log in cell.telling.logs},
            evidence_count=len(evidence),
        )
    )


def _figure(value: Any) -> str:
    if value is None:
        return "–"
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


def _tail(log: Path) -> str:
    """The last lines of a log, without what a terminal would obey and without secrets."""
    from sglgate.redact import redact

    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError as error:
        return f"({error.strerror})"
    lines = redact("".join(c for c in text if c in "\n\t" or c.isprintable())).splitlines()
    return "\n".join(line[:400] for line in lines[-_TAIL_LINES:])
