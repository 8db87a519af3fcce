"""Taking up a run where it stopped: what was judged to the end stays, what was cut is judged again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sglgate.config import Candidate
from sglgate.errors import MisuseError
from sglgate.evidence import Evidence, Verdict
from sglgate.launch.errors import LaunchError
from sglgate.redact import redact_data
from sglgate.run import EVIDENCE, TESTS, RunInfo, ended_line, now, read_evidence, read_run, read_tests
from sglgate.stack import Stack, write_atomically

SET_ASIDE: Final = "evidence.set-aside.jsonl"


@dataclass(frozen=True)
class Earlier:
    """What an earlier part of the run left."""

    folder: Path
    info: RunInfo
    #: Tests with final evidence. UNFIT is none: it says that the machine could not judge. Neither is preflight: the
    #: machine may have changed since.
    judged: frozenset[str]

    @property
    def failed_launches(self) -> dict[str, LaunchError]:
        """Configurations that did not come up, where a final verdict stands on it."""
        known = {e.candidate for e in read_evidence(self.folder) if e.test in self.judged}
        return {
            launch["configuration"]: LaunchError(f"in an earlier part of this run: {launch['problem']}", phase="before")
            for launch in self.info.launches
            if launch.get("problem") and launch["candidate"] in known
        }


def read_earlier(folder: Path) -> Earlier:
    """The run in ``folder``.

    Raises:
        MisuseError: it is none, or one of its files cannot be read.
    """
    info, ended = read_run(folder), read_tests(folder)
    by_test: dict[str, list[Evidence]] = {}
    for evidence in read_evidence(folder):
        by_test.setdefault(evidence.test, []).append(evidence)
    judged = {
        test
        for test, records in by_test.items()
        if test in ended and all(r.verdict is not Verdict.UNFIT and r.suite != "preflight" for r in records)
    }
    return Earlier(folder, info, frozenset(judged))


def require_same(
    earlier: Earlier, profile: str, candidates: Iterable[Candidate], stack: Stack, against: Stack | None = None
) -> None:
    """A run is one stack and one set of candidates, or its rows cannot stand side by side.

    Raises:
        MisuseError: something differs; says what.
    """
    info = earlier.info
    found: list[tuple[str, Any, Any]] = [("profile", info.profile, profile)]
    found.append(("stack", info.stack.get("digest"), stack.digest))
    found.append(("against", info.against.get("digest"), against.digest if against else None))
    # As it was written: without secrets.
    now_asked = {c.name: redact_data(described(c)) for c in candidates}
    found.append(("candidates", sorted(info.candidates), sorted(now_asked)))
    found += [(f"candidates.{name}", info.candidates.get(name), data) for name, data in now_asked.items()]
    for key, then, today in found:
        if then != today:
            if isinstance(then, dict) and isinstance(today, dict):
                changed = sorted(k for k in then.keys() | today.keys() if then.get(k) != today.get(k))
                key, then, today = f"{key}.{changed[0]}", then.get(changed[0]), today.get(changed[0])
            raise MisuseError(
                f"the run to resume had {then!r}",
                file=earlier.folder,
                key=key,
                value=today,
                expected="the same again, or a new run",
            )


def described(candidate: Candidate) -> dict[str, Any]:
    """A candidate as ``run.json`` keeps it."""
    return candidate.model_dump(mode="json", exclude={"file"})


def take_up(earlier: Earlier) -> RunInfo:
    """Set the evidence of cut tests aside, and return the run's description as it goes on.

    The records that are set aside stay in a file of their own: nothing that was measured is destroyed.
    """
    kept: list[str] = []
    aside: list[str] = []
    for evidence in read_evidence(earlier.folder):
        (kept if evidence.test in earlier.judged else aside).append(evidence.model_dump_json())
    if aside:
        with (earlier.folder / SET_ASIDE).open("a", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in aside)
    write_atomically(earlier.folder / EVIDENCE, "".join(line + "\n" for line in kept))
    # Whoever waits for a test to be judged again must not find it done.
    ended = {test: s for test, s in read_tests(earlier.folder).items() if test in earlier.judged}
    write_atomically(earlier.folder / TESTS, "".join(ended_line(test, s) for test, s in ended.items()))
    entry = {"at": now(), "judged_before": len(earlier.judged), "records_set_aside": len(aside)}
    info = earlier.info.model_copy(
        update={"finished": None, "exit_code": None, "resumed": [*earlier.info.resumed, entry]}
    )
    write_atomically(earlier.folder / "run.json", json.dumps(info.model_dump(mode="json"), indent=1) + "\n")
    return info
