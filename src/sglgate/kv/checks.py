"""Every pool that a start allocated against its predicted interval: what the live gate asks of a record."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from sglgate.kv.budget import GIB, Interval
from sglgate.kv.case import draft_row_bytes, prepare
from sglgate.kv.cell import Split
from sglgate.kv.fractions import memory, pools
from sglgate.kv.geometry import Config, Family, draft_layer_count
from sglgate.kv.observed import Observed, PoolLine, RankReadings, observe, question_of
from sglgate.kv.predict import predict
from sglgate.kv.question import Prediction, Verdict
from sglgate.logs import StartupRecord

_FREED = "; garbage is collected before the sizing, so it may see more free memory than the log's last reading"
_READING = re.compile(r"kv reading: (?P<word>pre|avail)=(?P<gib>[\d.]+) GiB")


@dataclass(frozen=True)
class RankCheck:
    """One rank's pool against its prediction. ``inside`` None: nothing to compare (declined, capped away,
    no pool)."""

    rank: str
    role: str
    tokens: int | None
    tokens_min: int | None
    tokens_max: int | None
    bytes_per_token_found: float | None
    bytes_per_token_expected: float | None
    inside: bool | None
    why: str = ""


def predict_from_record(
    record: StartupRecord,
    config: Config,
    draft_config: Config | None = None,
    version: str | None = None,
    fraction: float | None = None,
    readings: tuple[float, float] | None = None,
) -> tuple[RankCheck, ...]:
    """Every rank's target and draft pool against its predicted interval: what the live gate asks.

    Args:
        record: a finished start, as :mod:`sglgate.logs` reads it.
        config: the target's ``config.json``.
        draft_config: the draft's, for the width of its rows; its tokens are the target's by construction.
        version: the stack's SGLang version, where the log does not say it.
        fraction: to predict with instead of the log's own ``mem_fraction_static``.
        readings: GiB before and after the weights from :func:`exact_readings`: the count must be met exactly.

    Raises:
        MisuseError: the log shows no memory readings.
    """
    observed = observe(record)
    checks: list[RankCheck] = []
    for group in observed.groups().values():
        checks += _check_group(observed, group, config, draft_config, version, fraction, readings)
    return tuple(checks)


def exact_readings(log: Path) -> tuple[float, float] | None:
    """The readings of the sizing, GiB before and after the weights, where the server was started with
    ``sglgate/stack_side/kv_readings`` on its PYTHONPATH; None where the log does not hold them.

    Replicas of plain data parallelism read apart; this is for one group of ranks.
    """
    found: dict[str, float] = {}
    with log.open(encoding="utf-8", errors="replace") as stream:
        for line in stream:
            match = _READING.search(line)
            if match is not None:
                found.setdefault(match["word"], float(match["gib"]))
    return (found["pre"], found["avail"]) if found.keys() >= {"pre", "avail"} else None


READINGS_PATH = Path(__file__).parent.parent / "stack_side" / "kv_readings"
"""What to put on a server's PYTHONPATH, so that its log holds the exact readings."""


def _check_group(
    observed: Observed,
    group: tuple[RankReadings, ...],
    config: Config,
    draft_config: Config | None,
    version: str | None,
    fraction: float | None,
    readings: tuple[float, float] | None,
) -> list[RankCheck]:
    question = question_of(observed, group, config, version)
    if readings is not None:
        pre, avail = readings
        question = question.model_copy(update={"pre_gib": pre, "avail_gib": avail, "rounding_gib": 0.0})
    if fraction is not None:
        question = question.model_copy(update={"mem_fraction_static": fraction})
    answer = predict(question)
    rules = prepare(question).rules
    expected: dict[str, float | None] = {"target": None, "draft": None}
    narrowest = 0.0
    if answer.verdict is not Verdict.DECLINED:
        case = prepare(question)
        if case.cell is not None:
            page = observed.page_size
            expected["target"], narrowest = float(case.cell.row), float(case.cell.row_min)
            if case.geometry.family is Family.SWA:
                _, _, nominal, _ = pools(case, observed.fraction or 0.5, *_known(memory(case)))
                expected["target"] = case.sizing.pool_gib(nominal) * GIB / max(1, nominal.tokens + page)
        if draft_config is not None:
            layers = draft_layer_count(draft_config)
            split = Split(question.tp_size, 1, int(question.dp_attention))
            row = draft_row_bytes(draft_config, rules, split, case.kv_dtype, layers)
            expected["draft"] = None if row is None else float(row)
    above = _FREED if rules.gc_before_sizing else ""
    return [
        _check(rank.rank, role, pool, answer, expected[role], observed.page_size, narrowest, above)
        for rank in group
        for role in ("target", "draft")
        if (pool := rank.pool(role)) is not None
    ]


def _known(
    readings: tuple[Interval | None, Interval | None, tuple[str, ...]],
) -> tuple[Interval, Interval]:
    pre, avail, _ = readings
    if pre is None or avail is None:
        raise ValueError("the readings are checked before this")
    return pre, avail


def _check(
    rank: str,
    role: str,
    pool: PoolLine,
    answer: Prediction,
    expected: float | None,
    page: int,
    narrowest: float,
    above: str,
) -> RankCheck:
    found = None if pool.size is None else pool.size.nominal * GIB / (pool.tokens + page)
    inside: bool | None = None
    why = ""
    if answer.tokens_min is None or answer.tokens_max is None:
        why = answer.notes[0] if answer.notes else "nothing predicted"
    elif not answer.tokens_min <= pool.tokens <= answer.tokens_max:
        inside, why = False, f"{pool.tokens} tokens lie outside {answer.tokens_min} to {answer.tokens_max}"
        why += above if pool.tokens > answer.tokens_max else ""
    elif (
        pool.size is not None
        and expected is not None
        and not _row_agrees(pool, expected, page)
        and not (role == "target" and narrowest and _row_agrees(pool, narrowest, page))
    ):
        inside, why = False, f"{found:.0f} bytes a token, not {expected:.0f}"
    else:
        inside = True
    return RankCheck(rank, role, pool.tokens, answer.tokens_min, answer.tokens_max, found, expected, inside, why)


def _row_agrees(pool: PoolLine, expected: float, page: int) -> bool:
    if pool.size is None:
        return True
    rows = pool.tokens + page
    return pool.size.low <= expected * rows / GIB <= pool.size.high


def pool_of(group: tuple[RankReadings, ...], role: str) -> PoolLine | None:
    """The first target or draft pool that a rank of the group shows."""
    return next((pool for rank in group if (pool := rank.pool(role)) is not None), None)
