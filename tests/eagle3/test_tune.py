"""The search against a server whose costs are known, and the command against the stand-in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sglgate.eagle3.tune import Figures, Setting, tune
from sglgate.errors import MisuseError

ROOT = Path(__file__).parents[2]


class Known:
    """Plain 10 ms a step; drafting ``step_ms`` each, verifying 12 ms plus ``token_ms`` a draft token."""

    def __init__(self, step_ms: float, rate: float = 0.7, token_ms: float = 0.0, tree_gain: float = 0.0) -> None:
        self.step_ms, self.rate, self.token_ms, self.tree_gain = step_ms, rate, token_ms, tree_gain
        self.asked: list[Setting | None] = []

    def __call__(self, setting):
        self.asked.append(setting)
        if setting is None:
            return Figures(100.0, 10.0, 1.0)
        rate = min(0.95, self.rate + self.tree_gain * (setting.topk > 1))
        rates = tuple(rate**place for place in range(1, setting.steps + 1))
        gap = 12 + self.step_ms * setting.steps + self.token_ms * setting.draft_tokens
        return Figures(1000 * (1 + sum(rates)) / gap, gap, 1 + sum(rates), rates)

    def best_chain(self, longest):
        return max(range(1, longest + 1), key=lambda steps: self(Setting.chain(steps)).tok_per_s)


@pytest.mark.parametrize("step_ms", [0.1, 1.0, 2.0, 4.0, 8.0])
def test_the_best_chain_of_eight_is_found_with_five_launches_at_most(step_ms):
    found = tune(Known(step_ms), max_steps=8)
    assert found.best.setting == Setting.chain(Known(step_ms).best_chain(8))
    assert found.launches <= 5
    assert found.draft_step_ms == pytest.approx(step_ms)
    assert found.verify_ms == pytest.approx(12)
    assert len(found.points) == 8


def test_drafting_that_costs_more_than_it_brings_does_not_pay():
    found = tune(Known(step_ms=20.0, rate=0.2), max_steps=5)
    assert not found.pays
    assert found.best.ratio < 1


def test_a_tree_is_tried_and_kept_only_where_it_wins():
    wins = tune(Known(1.0, tree_gain=0.2), max_steps=4, topks=(1, 2))
    assert wins.best.setting.topk == 2
    loses = Known(1.0, token_ms=3.0)
    found = tune(loses, max_steps=4, topks=(1, 2, 4))
    assert found.best.setting.topk == 1
    assert [s.topk for s in loses.asked if s].count(4) == 0, "wider than one that lost"


def test_the_launches_are_capped():
    known = Known(1.0)
    assert tune(known, max_steps=8, topks=(1, 2, 4), launches=3).launches == len(known.asked) == 3


def test_a_range_without_a_setting_is_refused():
    with pytest.raises(MisuseError, match="max_steps"):
        tune(Known(1.0), max_steps=0)
    with pytest.raises(MisuseError, match="topks"):
        tune(Known(1.0), max_steps=2, topks=(0,))


def test_the_command_prints_the_surface_of_a_live_server(tmp_path):
    (tmp_path / "spec.toml").write_text(
        'name = "spec"\nreason = "a test"\nmodel = "model"\n[arguments]\nspeculative-algorithm = "EAGLE3"\n'
        'speculative-draft-model-path = "draft"\n[environment]\nFAKE_STEP_MS = "10"\nFAKE_ROUND_MS = "60"\n'
    )
    paths = ["--candidates", tmp_path, "--stack", ROOT / "tests/fake_stack/python", "--logs", tmp_path / "logs"]
    options = ["--profile", "cpu", "--candidate", "spec", "--max-steps", "2", "--requests", "2"]
    command = [sys.executable, "-m", "sglgate.cli", "tune", "eagle3", *options, "--output-tokens", "16", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [*command, *map(str, paths)], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )
    # 3: on a machine that others keep busy the client is late, and the command must say so.
    if done.returncode == 3:
        assert "the client is the limit" in done.stderr
        return
    assert done.returncode == 1, done.stderr
    surface = json.loads(done.stdout)
    assert not surface["pays"]
    assert surface["unequal_arms"] == {"max_running_requests": [None, 48]}
    assert [p["setting"]["steps"] for p in surface["points"]] == [1, 2]
    assert len(list((tmp_path / "logs").glob("*.log"))) == surface["launches"]


def test_a_candidate_that_does_not_speculate_is_refused_before_anything_starts(tmp_path):
    command = [sys.executable, "-m", "sglgate.cli", "tune", "eagle3", "--profile", "cpu", "--candidate", "smollm2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "does not speculate" in done.stderr
