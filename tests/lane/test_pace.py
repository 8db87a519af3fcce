"""How long a run still takes, and that it stops when the answer is known."""

from __future__ import annotations

import pytest

from fixtures.pace import Pace, require_known
from sglgate.errors import MisuseError
from tests.lane.lanes import Lane


def test_time_left_is_what_earlier_runs_took_for_the_tests_that_are_left() -> None:
    pace = Pace(["a::t[one]", "a::u[one]", "a::t[two]"], {"a::t[one]": 60, "a::u[one]": 30, "a::t[two]": 120})

    assert pace.meets("a::t[one]") == "[1/2] one: about 3.5 min left"
    assert pace.meets("a::u[one]") is None
    pace.ends("a::t[one]")
    pace.ends("a::u[one]")
    assert pace.meets("a::t[two]") == "[2/2] two: about 2.0 min left"


def test_what_was_never_seen_is_said() -> None:
    assert Pace(["a::t[one]"], {}).meets("a::t[one]") == "[1/1] one: time left unknown"
    assert "beside 1 tests" in str(Pace(["a::t[one]", "a::u[one]"], {"a::t[one]": 6}).meets("a::t[one]"))


def test_a_misspelt_gate_is_misuse() -> None:
    with pytest.raises(MisuseError, match="did you mean 'equal_tokens'"):
        require_known(["equal_token"], ["suites/kv/test_allocation.py::test_equal_tokens[x]"])


def test_a_run_says_how_long_is_left(lane: Lane) -> None:
    lane.candidate()
    assert "[1/1] fake: time left unknown" in lane.run().output

    assert "[1/1] fake: about 0." in lane.run().output


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "side-by-side"])
def test_the_run_stops_when_the_named_gate_is_red(lane: Lane, workers: list[str]) -> None:
    lane.candidate("wrong-size")

    outcome = lane.run("--fail-fast-gate", "bytes_per_token", *workers)

    assert outcome.code == 1, outcome.output
    assert set(outcome.red()) == {"bytes_per_token"}
    assert "filled_without_retraction" not in {e.gate for e in outcome.evidence}, "it went on"
    assert "the rest is not asked" in outcome.output.replace("\n", " ")


def test_another_red_gate_stops_nothing(lane: Lane) -> None:
    lane.candidate("wrong-size")

    outcome = lane.run("--fail-fast-gate", "equal_tokens")

    assert "filled_without_retraction" in {e.gate for e in outcome.evidence}
