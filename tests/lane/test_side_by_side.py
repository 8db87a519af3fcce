"""Two workers, one run: servers run side by side on leases of their own, and what measures has the machine alone."""

from __future__ import annotations

import os
import signal
import time

import pytest
from junitparser import JUnitXml

from sglgate.launch.grounds import leases_folder, usable_cores
from sglgate.launch.seats import Person
from sglgate.run import read_run
from tests.lane.lanes import Lane, marked

pytestmark = pytest.mark.skipif(usable_cores() < 2, reason="two servers side by side need two cores")


def test_two_workers_write_one_run_with_all_that_one_alone_judges(lane: Lane) -> None:
    for name in ("one", "two", "three"):
        lane.candidate(name=name, environment=f'OF = "{name}"')

    outcome = lane.run("-n", "2")

    assert outcome.code == 0, outcome.output
    alone = lane.run()
    assert sorted(e.test for e in outcome.evidence) == sorted(e.test for e in alone.evidence)
    info = read_run(outcome.folder)
    assert sorted(launch["candidate"] for launch in info.launches) == ["one", "three", "two"], "each launched once"
    assert all(len(launch["slots"]) == 1 for launch in info.launches)
    (suite,) = JUnitXml.fromfile(str(outcome.folder / "junit.xml"))
    assert suite.tests == len({e.test for e in outcome.evidence})
    assert info.exit_code == 0


def test_servers_do_run_at_the_same_time_and_never_on_one_slot(lane: Lane) -> None:
    for name in ("one", "two"):
        lane.candidate("slow-start", name=name, environment=f'OF = "{name}"')
    mark = f"{lane.folder.parent.name}-{os.getpid()}"
    process = lane.start(mark, "-n", "2")
    together: set[tuple[str, str]] = set()
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        holders = [Person.read(path) for path in sorted(leases_folder().glob("slot-*"))]
        held = [person.purpose for person in holders if person is not None]
        if len(held) == 2:
            together.add((held[0], held[1]))
        time.sleep(0.01)
    output = process.communicate(timeout=30)[0].decode()

    assert process.returncode == 0, output
    assert {frozenset(pair) for pair in together} == {frozenset({"server of one", "server of two"})}


def test_a_server_that_needs_all_slots_waits_for_the_others(lane: Lane) -> None:
    lane.candidate(name="one")
    lane.candidate(name="wide", tp=usable_cores())

    outcome = lane.run("-n", "2")

    assert outcome.code == 0, outcome.output
    slots = {launch["candidate"]: launch["slots"] for launch in read_run(outcome.folder).launches}
    assert slots["wide"] == list(range(usable_cores()))


def test_a_fault_on_one_worker_is_red_and_told(lane: Lane) -> None:
    lane.candidate(name="sound")
    lane.candidate("figures-differ", name="faulty")

    outcome = lane.run("-n", "2")

    assert outcome.code == 1, outcome.output
    assert set(outcome.red()) == {"figures_agree"}
    assert {e.candidate for e in outcome.evidence} == {"sound", "faulty"}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_leaves_nothing_and_is_taken_up_again(lane: Lane, how: signal.Signals) -> None:
    for name in ("one", "two"):
        lane.candidate(name=name, environment=f'OF = "{name}"')
    mark = f"{lane.folder.parent.name}-{os.getpid()}"
    process = lane.start(mark, "-n", "2")
    lane.await_evidence(2)

    process.send_signal(how)
    deadline = time.monotonic() + 15
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert marked(mark) == []
    process.communicate(timeout=30)

    outcome = lane.run("-n", "2", "--resume", str(lane.newest()))

    assert outcome.code == 0, outcome.output
    assert {e.candidate for e in outcome.evidence} == {"one", "two"}
