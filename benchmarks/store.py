"""How long the store takes with 100,000 gate results, and the page of a run of 500 gates.

    python benchmarks/store.py [--runs 200] [--gates 500]

Makes up the runs (one launch and --gates gate results each, with one planted change of level), imports them into a
fresh SQLite store, and times three questions of a release meeting on it: the board, the trend of one metric with its
change points, the comparison of the newest two runs; then writes one run's page. Each is the median of five calls.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sglgate.evidence import Evidence
from sglgate.report import write_html
from sglgate.run import RunInfo
from sglgate.signoff import build, read_side
from sglgate.signoff.render import html
from sglgate.store import Filter, Store, board, import_run, trend
from sglgate.store.changes import change_points


def make_run(reports: Path, number: int, gates: int, of: int, rng: random.Random) -> Path:
    started = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=6 * number)
    sglang = "0.5.9" if number < of // 2 else "0.5.23"
    stack = {"digest": f"of-{sglang}", "packages": {"sglang": sglang}, "python": "3.11", "torch_build": {}}
    node = {"cpu": "a CPU", "cores": 2, "ram_gib": 8, "kernel": "6", "gpus": []}
    info = RunInfo(
        name=f"run{number:04}", profile="cpu", sglgate="0", started=started.isoformat(), finished=started.isoformat(),
        exit_code=0, stack=stack, node=node, launches=[],
    )  # fmt: skip
    folder = reports / info.name
    folder.mkdir()
    lines = []
    for gate in range(gates):
        value = 100 * (1 + 0.01 * rng.gauss(0, 1)) * (0.95 if number >= of // 2 else 1)
        record = Evidence(
            at=info.started, run=info.name, profile="cpu", candidate=f"candidate{gate % 10}", suite="eagle3",
            gate=f"gate{gate // 10}", test=f"t{gate}", verdict="PASS", reason="made up for this benchmark",
            metric="tok/s", value=value, bound=50, direction="at_least", unit="tok/s", n=5,
            interval=(value * 0.99, value * 1.01), detail={"blocks": [value, value * 1.001, value * 0.999]},
        )  # fmt: skip
        lines.append(record.model_dump_json())
    (folder / "evidence.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "run.json").write_text(info.model_dump_json())
    return folder


def median_s(call: Callable[[], object], repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--gates", type=int, default=500)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as text:
        reports = Path(text)
        rng = random.Random(1)
        folders = [make_run(reports, number, args.gates, args.runs, rng) for number in range(args.runs)]
        with Store(str(reports / "history.sqlite"), create=True) as store:
            begin = time.perf_counter()
            for folder in folders:
                import_run(store, folder)
            import_s = time.perf_counter() - begin
            one = Filter(candidate="candidate3", gate="eagle3/gate7")

            def follow() -> list[object]:
                return [change_points([row.value for row in rows]) for rows in trend(store, one).values()]

            found = {
                "gate results": args.runs * args.gates,
                "size_mib": round(sum(f.stat().st_size for f in reports.glob("history.sqlite*")) / (1 << 20), 1),
                "import_ms_per_run": round(1000 * import_s / args.runs, 1),
                "board_s": round(median_s(lambda: board(store, Filter())), 3),
                "trend_s": round(median_s(follow), 3),
                "changes_found": len(follow()[0]),
            }
        found["comparison_s"] = round(median_s(lambda: html(build(*map(read_side, folders[-2:])))), 3)
        found["page_s"] = round(median_s(lambda: write_html(folders[-1])), 3)
        found["page_gates"] = args.gates
        print(json.dumps(found))


if __name__ == "__main__":
    main()
