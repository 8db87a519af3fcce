"""Predictions and explanations as text for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile

from sglgate.errors import MisuseError
from sglgate.kv import plot
from sglgate.kv.account import Account
from sglgate.kv.effects import Effect
from sglgate.kv.explain import Explanation
from sglgate.kv.question import Prediction, Question
from sglgate.kv.window import Window


def prediction(
    question: Question,
    answer: Prediction,
    window: Window | None,
    varied: Sequence[Effect],
    sweep: bool,
) -> str:
    """A prediction as lines: the pool, the window, the effects, and with ``sweep`` the plot and its table."""
    details = answer.details
    lines = [
        _row("verdict", str(answer.verdict)),
        _row("tokens per rank", _span(answer.tokens, answer.tokens_min, answer.tokens_max)),
        _row(
            "bytes per token",
            "unknown" if answer.bytes_per_token is None else f"{answer.bytes_per_token:,.0f}",
        ),
    ]
    if answer.pool_gib is not None:
        lines.append(_row("pool", f"{answer.pool_gib:.2f} GiB"))
    if details.get("swa_tokens") is not None:
        lines.append(_row("sliding pool", f"{details['swa_tokens']:,} tokens"))
    if details.get("state_slots") is not None:
        lines.append(_row("state slots", f"{details['state_slots']:,} of {details['state_bytes_per_slot']:,} bytes"))
    if details.get("draft_pool_gib") is not None:
        lines.append(_row("draft pool", f"{details['draft_pool_gib']:.2f} GiB"))
    if "request_slots" in details:
        lines.append(_row("request slots", f"{details['request_slots']:,}"))
        many = f"{details['requests_of_asked_length']:,} of {details['request_tokens']:,} tokens at once"
        lines.append(_row("requests", many))
    if answer.implied_fraction is not None:
        lines.append(_row("implied fraction", f"{answer.implied_fraction:.4f}"))
    if window is not None:
        lines += _window(window)
    lines += [f"note: {note}" for note in answer.notes]
    if varied:
        lines += ["", "with one thing changed:"]
        lines += _table(
            ("change", "tokens", "bytes/token", "verdict", "assumed"),
            [
                (
                    effect.what,
                    _span(effect.prediction.tokens, None, None),
                    "-" if effect.prediction.bytes_per_token is None else f"{effect.prediction.bytes_per_token:,.0f}",
                    str(effect.prediction.verdict),
                    effect.assumed,
                )
                for effect in varied
            ],
        )
    if sweep and window is not None:
        lines += ["", plot.terminal(window, question.mem_fraction_static), ""]
        lines += _table(
            ("fraction", "tokens", "from", "to"),
            [
                (f"{p.fraction:.4f}", f"{p.tokens:,}", f"{p.tokens_min:,}", f"{p.tokens_max:,}")
                for p in window.points[::4]
            ],
        )
    return "\n".join(lines)


def explanation(found: Explanation) -> str:
    """An explanation as lines, the answer first."""
    lines = [found.headline]
    lines += [f"contradiction: {text}" for text in found.contradictions]
    if found.checks:
        lines += ["", "pools:"]
        lines += _table(
            ("rank", "pool", "tokens", "predicted", "bytes/token", "expected", "inside"),
            [
                (
                    check.rank or "-",
                    check.role,
                    f"{check.tokens:,}" if check.tokens is not None else "-",
                    "-" if check.tokens_min is None else f"{check.tokens_min:,}..{check.tokens_max:,}",
                    "-" if check.bytes_per_token_found is None else f"{check.bytes_per_token_found:,.0f}",
                    "-" if check.bytes_per_token_expected is None else f"{check.bytes_per_token_expected:,.0f}",
                    {True: "yes", False: "NO", None: "-"}[check.inside],
                )
                for check in found.checks
            ],
        )
    lines += ["", "where the card went (GiB, per rank):"]
    lines += _table(_ACCOUNT_HEAD, [_account(one) for one in found.accounts])
    if found.changes:
        lines += ["", "since the other start:"]
        lines += _table(
            ("what", "before", "after", "pool GiB"),
            [(c.what, c.before, c.after, "" if c.pool_gib is None else f"{c.pool_gib:+.2f}") for c in found.changes],
        )
    lines += [f"note: {note}" for note in found.prediction.notes]
    return "\n".join(lines)


def write_svg(path: Path, window: Window, question: Question) -> None:
    """Write the plot whole or not at all.

    Raises:
        MisuseError: the file cannot be written.
    """
    title = f"KV pool by memory fraction, TP {question.tp_size}"
    try:
        with NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as draft:
            draft.write(plot.svg(window, title, question.mem_fraction_static))
        Path(draft.name).chmod(0o644)
        Path(draft.name).replace(path)
    except OSError as error:
        raise MisuseError(f"cannot be written: {error.strerror or error}", file=path, key="--svg") from error


def _window(window: Window) -> list[str]:
    lowest = "none" if window.lowest is None else f"{window.lowest:.3f}"
    lines = [
        _row("starts above", f"{window.starts_above:.3f}"),
        _row(
            "window",
            f"{lowest} to {window.highest:.3f} for one request of {window.request_tokens:,} tokens"
            + (" (empty)" if window.empty else ""),
        ),
    ]
    if window.default_high is not None and window.default_low is not None:
        values = {f"{window.default_low:.3f}", f"{window.default_high:.3f}"}
        lines.append(_row("default", f"{' or '.join(sorted(values))}: {window.default_position} the window"))
    lines.append(f"note: {window.assumption}")
    return lines


_ACCOUNT_HEAD = (
    "rank",
    "total",
    "before weights",
    "weights",
    "draft weights",
    "target pool",
    "draft pool",
    "state",
    "graphs",
    "unlogged",
    "left",
)


def _account(one: Account) -> tuple[str, ...]:
    before = _gib(one.before_weights)
    if one.custom_all_reduce is not None:
        before += f" ({one.custom_all_reduce:.2f} custom all-reduce)"
    return (
        one.rank or "-",
        _gib(one.total),
        before,
        *(
            _gib(value)
            for value in (
                one.weights,
                one.draft_weights,
                one.target_pool,
                one.draft_pool,
                one.state_pool,
                one.graphs,
                one.unlogged,
                one.left,
            )
        ),
    )


def _gib(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _span(tokens: int | None, low: int | None, high: int | None) -> str:
    if tokens is None:
        return "unknown"
    return f"{tokens:,}" if low is None else f"{tokens:,} ({low:,} to {high:,})"


def _row(name: str, value: str) -> str:
    return f"{name:<18} {value}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    whole = [tuple(head), *(tuple(row) for row in rows)]
    widths = [max(len(row[column]) for row in whole) for column in range(len(head))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in whole
    ]
