from __future__ import annotations

import math
import subprocess
import sys

import pytest

from sglgate.decision import ALPHAS, LOOKS, Rule, joint_error
from sglgate.errors import MisuseError


def test_the_default_schedule_spends_what_its_comment_says():
    assert joint_error(LOOKS, ALPHAS) == pytest.approx(0.0410, abs=2e-4)


def test_a_schedule_that_spends_more_than_alpha_is_refused_with_the_sum():
    with pytest.raises(MisuseError, match=r"spend 0\.107\d, more than alpha = 0\.05"):
        Rule.at_least(1.0, design_effect=0.05, looks=(3, 5, 8), alphas=(0.05, 0.05, 0.05))


def test_the_issues_schedule_is_allowed():
    rule = Rule.at_least(1.0, design_effect=0.05, looks=[3, 5, 8], alphas=[0.001, 0.012, 0.040])
    assert (rule.cap, rule.looks) == (8, (3, 5, 8))


def test_no_slower_is_sized_for_a_candidate_that_is_exactly_as_fast():
    rule = Rule.no_slower(0.03)
    assert (rule.kind, rule.threshold) == ("at_most", 1.03)
    assert rule.ratio_at(rule.effect_log) == pytest.approx(1.0)


@pytest.mark.parametrize("rule", [Rule.at_least(1.2, design_effect=0.1), Rule.no_slower(0.05)])
def test_distance_is_positive_on_the_green_side_and_can_be_undone(rule):
    green, red = (1.3, 1.1) if rule.kind == "at_least" else (0.9, 1.2)
    assert rule.distance(math.log(green)) > 0 > rule.distance(math.log(red))
    assert rule.ratio_at(rule.distance(math.log(green))) == pytest.approx(green)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kind", "about"),
        ("threshold", 0.0),
        ("threshold", math.nan),
        ("design_effect", 0.0),
        ("looks", ()),
        ("looks", (1, 4, 6, 8)),
        ("looks", (2, 4, 4, 8)),
        ("looks", (2, 4, 6, 33)),
        ("looks", (2.0, 4, 6, 8)),
        ("alphas", (0.01, 0.01)),
        ("alphas", (0.0, 0.01, 0.01, 0.01)),
        ("alpha", 0.9),
        ("futility", 1.0),
        ("min_power", 0.0),
        ("max_voids", -1),
    ],
)
def test_a_rule_that_cannot_be_kept_is_refused_by_its_key(key, value):
    fields = {"kind": "at_least", "threshold": 1.0, "design_effect": 0.05, key: value}
    with pytest.raises(MisuseError) as refused:
        Rule(**fields)
    assert refused.value.key == f"rule: {key}"


def test_declaring_a_default_rule_imports_neither_numpy_nor_scipy():
    code = (
        "import sys; from sglgate.decision import Rule; Rule.no_slower(0.03);"
        "sys.exit(bool({'numpy', 'scipy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
