"""All that is on the page of a run, read from its folder: the values of the template's names."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, Final

from sglgate.report.arguments import argument_pairs
from sglgate.report.board import MACHINE, build_board, run_verdict
from sglgate.report.excerpts import inside
from sglgate.report.figures import figures
from sglgate.report.launches import launches
from sglgate.report.memory import memory_maps
from sglgate.report.pictures.bars import swatch
from sglgate.report.pictures.interval import interval_picture
from sglgate.report.reds import explain_reds
from sglgate.report.telemetry import read_telemetry
from sglgate.report.text import history_lines
from sglgate.run import EVIDENCE, RUN, read_evidence, read_run
from sglgate.stack import HEADLINE_PACKAGES
from sglgate.telemetry import TELEMETRY

#: Up to this size a file travels inside the page, for whoever has the page alone.
_INLINE_BYTES: Final = 1 << 19


def page_content(folder: Path) -> dict[str, Any]:
    """The same evidence gives the same content.

    Raises:
        MisuseError: not a run's folder.
    """
    info, evidence = read_run(folder), read_evidence(folder)
    board = build_board(evidence)
    telemetry = read_telemetry(folder)
    return {
        "info": info,
        "board": board,
        "machine": MACHINE,
        "verdict": run_verdict(info, board),
        "headline": _headline(info.stack),
        "history": history_lines(info),
        "reds": explain_reds(folder, board),
        "interval_picture": interval_picture,
        "swatch": swatch,
        "is_own_log": lambda log: inside(folder, log) is not None,
        "figures": figures(evidence),
        "memory": memory_maps(evidence),
        "launches": launches(info, evidence, telemetry),
        "telemetry": telemetry,
        "arguments": argument_pairs(info),
        "files": [file for name in (EVIDENCE, RUN, TELEMETRY) if (file := _file(folder / name))],
        "evidence_count": len(evidence),
    }


def _headline(stack: dict[str, Any]) -> dict[str, str]:
    packages = stack.get("packages", {})
    found = {name: packages[name] for name in HEADLINE_PACKAGES if name in packages}
    if stack:
        found |= {"python": stack["python"], "torch CUDA": stack["torch_build"].get("cuda", "none")}
    return found


def _file(path: Path) -> tuple[str, str] | None:
    """Name and, where it is small, the whole file as a link; None where there is no such file."""
    try:
        is_small = path.stat().st_size <= _INLINE_BYTES
        inline = base64.b64encode(path.read_bytes()).decode() if is_small else ""
    except OSError:
        return None
    return path.name, f"data:application/octet-stream;base64,{inline}" if inline else ""
