"""The baseline is the candidate without speculation, and whatever else differs is named."""

from __future__ import annotations

import pytest

from sglgate.config import Candidate
from sglgate.config.eagle3 import SpeedNeed
from sglgate.decision import CPU_VOID_RULES
from sglgate.eagle3.arms import UnequalArmsError, baseline_of, require_equal_arms, unequal_arms
from sglgate.eagle3.cells import rules_of
from sglgate.errors import MisuseError

SPECULATION = {"speculative-algorithm": "EAGLE3", "speculative-num-steps": 3, "speculative-draft-model-path": "d"}


def candidate(**arguments):
    return Candidate(name="c", profile="cpu", file="c.toml", reason="tests", model="m", arguments=arguments)


def test_the_baseline_loses_the_speculative_arguments_and_nothing_else():
    full = candidate(**{"page-size": 16, "max-running-requests": 8, **SPECULATION})
    assert baseline_of(full).arguments == {"page-size": 16, "max-running-requests": 8}
    assert baseline_of(full).name == "c--plain"
    assert baseline_of(full).environment == full.environment


def test_a_candidate_that_does_not_speculate_has_no_baseline():
    with pytest.raises(MisuseError, match="does not speculate"):
        baseline_of(candidate(**{"page-size": 1}))


def test_what_speculation_itself_states_and_what_every_launch_has_anew_is_no_difference():
    plain = {"port": 1, "random_seed": 5, "launch_command": "a", "speculative_num_steps": None, "page_size": 1}
    spec = {"port": 2, "random_seed": 6, "launch_command": "b", "speculative_num_steps": 3, "page_size": 1}
    assert unequal_arms(plain, spec) == {}


@pytest.mark.parametrize(
    ("name", "plain", "spec"),
    [
        ("max_running_requests", None, 48),
        ("mem_fraction_static", 0.88, 0.8),
        ("disable_overlap_schedule", False, True),
        ("page_size", 1, 64),
        ("an_argument_of_a_later_release", "x", "y"),
    ],
)
def test_what_sglang_changes_behind_is_named_with_both_values(name, plain, spec):
    assert unequal_arms({name: plain}, {name: spec}) == {name: (plain, spec)}
    assert unequal_arms({name: plain}, {name: spec}, {name.replace("_", "-"): "accepted"}) == {}


def test_a_nested_difference_is_named_where_it_is():
    plain, spec = ({"cuda_graph_config": {"decode": {"max_bs": n}}} for n in (32, 48))
    assert unequal_arms(plain, spec) == {"cuda_graph_config.decode.max_bs": (32, 48)}


def test_a_value_that_only_one_server_states_is_a_difference():
    assert unequal_arms({"a": 1}, {}) == {"a": (1, "(not stated)")}


def test_the_limit_that_the_scheduler_set_itself_is_compared():
    plain, spec = ({"internal_states": [{"effective_max_running_requests_per_dp": n, "x": n}]} for n in (2048, 48))
    assert list(unequal_arms(plain, spec)) == ["effective_max_running_requests_per_dp"]


def test_unequal_arms_end_the_comparison_by_name():
    with pytest.raises(UnequalArmsError, match="max_running_requests"):
        require_equal_arms({}, {"max_running_requests": 48})
    require_equal_arms({}, {"max_running_requests": 48}, {"max-running-requests": "one user at a time"})


def test_a_win_and_a_margin_become_rules_with_their_own_looks():
    need = SpeedNeed(min_ratio={"chat@1": 1.1}, max_loss={"json@4": 0.03}, looks=[2, 4])
    rules = rules_of(need, CPU_VOID_RULES)
    assert {name: rule.threshold for name, rule in rules.items()} == {"chat@1": 1.1, "json@4": 0.97}
    assert rules["chat@1"].cap == 4
