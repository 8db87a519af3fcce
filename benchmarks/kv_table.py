"""Print what the launches of ``kv_grid.py`` allocated against what was predicted, as a Markdown table.

    python benchmarks/kv_table.py tests/kv/logs

``exact``: the count by the very readings of the sizing. ``from the log``: the interval that the log's
printed figures give. ``drift``: how far free memory moved between the log's lines and those readings, GiB
before and after the weights.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sglgate.kv.checks import exact_readings, predict_from_record
from sglgate.kv.explain import explain
from sglgate.kv.observed import observe, read_log

VERSION = "0.5.23"
HEAD = ("entry", "settings", "fraction", "pre", "avail", "tokens", "exact", "from the log", "drift")


def main(folder: Path) -> int:
    """Print the table and the largest drift."""
    rows, largest = [HEAD, ("---",) * len(HEAD)], 0.0
    for name, entry in json.loads((folder / "grid.json").read_text()).items():
        row, drift = row_of(name, entry, folder / f"{name}.log")
        rows.append(row)
        largest = max(largest, drift)
    print("\n".join(f"| {' | '.join(row)} |" for row in rows))
    print(f"\nlargest drift between a log's line and the reading that counts: {largest:.2f} GiB")
    return 0


def row_of(name: str, entry: dict, log: Path) -> tuple[tuple[str, ...], float]:
    """One launch as cells, and the larger of its two drifts in GiB."""
    record = read_log(log)
    readings = exact_readings(log)
    arguments = dict(entry["arguments"])
    fraction = arguments.pop("mem-fraction-static")
    settings = ", ".join(f"{key} {value}" for key, value in arguments.items() if not key.startswith("speculative-"))
    settings += ", EAGLE3" if "draft_config" in entry else ""
    if readings is None:
        return (name, settings, f"{fraction:g}", *["-"] * 6), 0.0
    pre, avail = readings
    rank = observe(record).ranks[0]
    drifts = (pre - (rank.pre_gib or pre), avail - (rank.avail_gib or avail))
    shown = (name, settings, f"{fraction:g}", f"{pre:.4f}", f"{avail:.4f}")
    moved = " ".join(f"{drift:+.2f}" for drift in drifts)
    found = explain(record, entry["model_config"], version=VERSION, readings=readings)
    if not found.pool_found:
        return (*shown, "no pool", found.prediction.verdict, "-", moved), max(map(abs, drifts))
    exact, printed = (
        predict_from_record(record, entry["model_config"], entry.get("draft_config"), VERSION, readings=given)
        for given in (readings, None)
    )
    tokens = "/".join(sorted({f"{check.tokens:,}" for check in exact}))
    agreed = "/".join(sorted({f"{check.tokens_min:,}" for check in exact}))
    wide = f"{printed[0].tokens_min:,} to {printed[0].tokens_max:,}"
    return (*shown, tokens, agreed, wide, moved), max(map(abs, drifts))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
