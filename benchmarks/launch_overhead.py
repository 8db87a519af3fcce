"""How long the suite takes to notice what a server does, and what it costs beside launching and measuring.

    .venv/bin/python benchmarks/launch_overhead.py [--launches 5] [--run reports/RUN]

1. "fired up" to ready, and a fatal line to the verdict: real keeper, log and sockets, against the stand-in server of
   tests/fake_stack (it prints SGLang's lines and answers its endpoints). From the moment the suite saw the line, at
   most 20 ms after it was written, to the return of ``Server.start``.
2. Collection of the CPU lane, whole process, beside an empty pytest in the same run.
3. With ``--run``: a real run's wall time over its launches and tests, from ``run.json`` and ``junit.xml``; and the lag
   that each of its real launches had.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]


def lags(launches: int) -> None:
    os.environ["FAKE_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as name:
        os.environ["SGLGATE_LOCK"] = str(Path(name, "lock"))
        from sglgate.config import Candidate, Profile
        from sglgate.launch import LaunchError, Server
        from sglgate.stack import read_stack

        stack = read_stack(ROOT / "tests" / "fake_stack" / "python")
        profile = Profile.model_validate({"name": "cpu", "reason": "benchmark"})

        def server(fault: str, number: int) -> Server:
            fields = {"name": "c", "profile": "cpu", "file": "c", "reason": "r", "model": "m"}
            candidate = Candidate.model_validate(fields | {"environment": {"FAKE": fault, "PYTHONUNBUFFERED": "1"}})
            return Server(candidate, profile, stack, "model", Path(name, f"{fault or 'sound'}{number}.log"))

        ready, fatal = [], []
        for number in range(launches):
            with server("", number) as sound:
                ready.append(sound.ready_lag_s)
            try:
                server("dies-in-weights", number).start()
            except LaunchError as error:
                fatal.append(error.noticed_after_s)
        show("'fired up' in the log to ready (aim 0.3 s)", ready, "s")
        show("fatal line in the log to the verdict (aim 1 s)", fatal, "s")


def collection(repeats: int) -> None:
    def seconds(*arguments: str) -> float:
        begun = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments], cwd=ROOT, capture_output=True
        )
        return time.perf_counter() - begun

    lane, empty = [], []
    for _ in range(repeats):
        lane.append(seconds("--collect-only", "-q", "-m", "cpu"))
        empty.append(seconds("--version", "--version"))
    show("collecting the CPU lane (aim 1 s)", lane, "s")
    show("  over an empty pytest", [a / b for a, b in zip(lane, empty, strict=True)], "x")


def real_run(folder: Path) -> None:
    run = json.loads((folder / "run.json").read_text())
    begun, ended = (datetime.datetime.fromisoformat(run[key]).timestamp() for key in ("started", "finished"))
    suite = ElementTree.parse(folder / "junit.xml").getroot().find("testsuite")
    # The time of a test holds the launch that it waited for.
    tests = sum(float(case.get("time")) for case in suite.iter("testcase"))
    show("wall time over launches and tests (aim 1.03)", [(ended - begun) / tests], "x")
    show(
        "  'fired up' to ready on real launches",
        [lag for launch in run["launches"] if (lag := launch["ready_lag_s"]) is not None],
        "s",
    )


def show(what: str, values: list[float], unit: str) -> None:
    low, mid, high = min(values), statistics.median(values), max(values)
    print(f"{what}: median {mid:.3f} {unit} (min {low:.3f}, max {high:.3f}, n={len(values)})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=5)
    parser.add_argument("--run", type=Path, help="a finished run of the CPU lane")
    options = parser.parse_args()
    lags(options.launches)
    collection(options.launches)
    if options.run:
        real_run(options.run)
