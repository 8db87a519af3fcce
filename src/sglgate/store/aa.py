"""The noise of a node: its A/A blocks, kept for :func:`sglgate.decision.pool`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert, select

from sglgate.decision import AaRecord, NoisePrior, NoPrior, pool
from sglgate.errors import MisuseError, SglgateError
from sglgate.evidence import AA_DETAIL, Evidence
from sglgate.store.database import Store, default_store
from sglgate.store.schema import AA

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def records_of(evidence: Iterable[Evidence]) -> list[AaRecord]:
    """The A/A blocks that a run's gates left in their detail.

    Raises:
        MisuseError: they are there and are not numbers by metric.
    """
    found: list[AaRecord] = []
    for e in evidence:
        blocks = e.detail.get(AA_DETAIL, {})
        try:
            found += [
                AaRecord(datetime.fromisoformat(e.at), e.run, e.stack, e.profile, metric, float(ratio))
                for metric, ratios in blocks.items()
                for ratio in ratios
            ]
        except (AttributeError, TypeError, ValueError):
            raise MisuseError(
                "not A/A blocks", key=f"{e.suite}/{e.gate}: {AA_DETAIL}", expected="{metric: [log ratio, ...]}"
            ) from None
    return found


def add_aa(connection: Connection, records: Sequence[AaRecord], node: str) -> None:
    """Add what is not there yet."""
    seen: dict[str, int] = {}
    rows: dict[str, dict[str, Any]] = {}
    for record in records:
        fields: dict[str, Any] = {
            "at_us": (record.at - _EPOCH) // timedelta(microseconds=1),
            "session": record.session,
            "node": node,
            "stack": record.stack,
            "profile": record.profile,
            "metric": record.metric,
            "log_ratio": record.log_ratio,
        }
        text = json.dumps(fields)
        # Two blocks of one session may agree in every digit that was kept: they are two all the same.
        seen[text] = seen.get(text, 0) + 1
        rows[hashlib.sha256(f"{text}{seen[text]}".encode()).hexdigest()] = fields
    known = set(connection.execute(select(AA.c.key).where(AA.c.session.in_({r.session for r in records}))).scalars())
    new = [{"key": key, **fields} for key, fields in rows.items() if key not in known]
    if new:
        connection.execute(insert(AA), new)


def aa_history(store: Store, *, node: str, stack: str, profile: str, metric: str) -> list[AaRecord]:
    """What :func:`sglgate.decision.pool` takes: this node's blocks of one stack, profile and metric, oldest first.

    ``node`` is :func:`sglgate.store.node_digest` of the machine: a fleet shares a store, but not its noise.
    """
    query = select(AA).where(AA.c.node == node, AA.c.stack == stack, AA.c.profile == profile, AA.c.metric == metric)
    with store.reading() as connection:
        return [
            AaRecord(
                _EPOCH + timedelta(microseconds=row.at_us), row.session, row.stack, row.profile, row.metric,
                row.log_ratio,
            )
            for row in connection.execute(query.order_by(AA.c.at_us, AA.c.key))
        ]  # fmt: skip


def recorded_noise(
    reports: Path, *, node: str, stack: str, profile: str, metrics: Mapping[str, str]
) -> dict[str, NoisePrior | NoPrior]:
    """What the history beside the runs may add to a comparison, for each of ``metrics`` (by any name).

    It saves blocks and is no condition: a store that is not there, or cannot be read, is a reason among others.
    """
    try:
        with Store(default_store(reports)) as store:
            histories = {
                name: aa_history(store, node=node, stack=stack, profile=profile, metric=metric)
                for name, metric in metrics.items()
            }
    except SglgateError as error:
        return dict.fromkeys(metrics, NoPrior(f"no history: {error}"))
    return {
        name: pool(histories[name], now=datetime.now(UTC), stack=stack, profile=profile, metric=metric)
        for name, metric in metrics.items()
    }
