"""The same faults on real servers: each is red, and for its own reason. About 25 minutes on two cores that are free.

SGLGATE_STACK=.stacks/cpu/bin/python pytest -m stack tests/eagle3
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import geometric_mean

import pytest

from fixtures.models.eagle3 import DRAFT_FOLDER
from fixtures.models.resolve import resolve_model, with_models
from sglgate.config import Candidate, load_candidates, load_profiles
from sglgate.config.candidate_files import select
from sglgate.decision import CPU_VOID_RULES, Block, Rule, drive
from sglgate.eagle3.arms import baseline_of
from sglgate.errors import UnfitError
from sglgate.evidence import Verdict
from sglgate.launch.pool import ServerPool
from sglgate.launch.server import Server
from sglgate.load import ClosedLoop, LoadPlan, PromptSet, run_load
from sglgate.speed.cells import Cell, prompts_of
from sglgate.speed.judge import judge_fitness
from sglgate.speed.measure import BlockRun, flush, measure_cell, run_arm
from sglgate.stack import cache_folder, read_stack
from sglgate.telemetry import Telemetry
from tests.eagle3.judging import ROOT, judge, red

pytestmark = pytest.mark.stack

# Read now: every test has a cache of its own.
CACHE = cache_folder()
PLANTED = Path(__file__).with_name("planted")
PROMPTS = ROOT / "fixtures" / "prompts"
CONTROL = """
name = "control"
reason = "a negative control"
model = "recipe:smollm2-135m-instruct"
[arguments]
dtype = "float32"
max-total-tokens = 4096
disable-overlap-schedule = true
speculative-algorithm = "EAGLE3"
speculative-draft-model-path = "{draft}"
speculative-num-steps = 3
speculative-eagle-topk = 1
speculative-num-draft-tokens = 4
{arguments}
[environment]
{environment}
[expect.eagle3]
template = "<|im_start|>user\\n{{prompt}}<|im_end|>\\n<|im_start|>assistant\\n"
[expect.eagle3.answers]
kinds = ["chat"]
prompts = 1
tokens = 24
[expect.eagle3.acceptance]
requests = 3
output_tokens = 24
"""


def judged(folder: Path, stack: Path, gates: str, draft: Path, arguments: str = "", environment: str = ""):
    (folder / "control.toml").write_text(
        CONTROL.format(draft=draft, arguments=arguments, environment=environment), encoding="utf-8"
    )
    own = {**os.environ, "SGLGATE_CACHE": str(CACHE), "SGLGATE_STORE": str(folder / "store.sqlite")}
    return judge(folder, stack, "-k", gates, timeout_s=900, environment=own)


def random_draft(folder: Path) -> Path:
    """The committed draft with everything that was trained drawn anew."""
    import numpy as np

    shutil.copytree(DRAFT_FOLDER, folder)
    file = folder / "model.safetensors"
    raw, draw = bytearray(file.read_bytes()), np.random.default_rng(1)
    header_bytes = int.from_bytes(raw[:8], "little")
    for name, entry in json.loads(raw[8 : 8 + header_bytes]).items():
        if name.startswith(("fc.", "midlayer.")):
            assert entry["dtype"] == "BF16"
            start, end = (8 + header_bytes + offset for offset in entry["data_offsets"])
            values = draw.normal(0, 0.02, (end - start) // 2).astype(np.float32)
            raw[start:end] = (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    file.write_bytes(raw)
    return folder


def test_a_random_draft_is_called_dead_and_unpinned_requests_are_named(stack_python: Path, tmp_path: Path) -> None:
    evidence = judged(
        tmp_path, stack_python, "draft_is_accepted or equal_arms or greedy", random_draft(tmp_path / "draft")
    )
    found = red(evidence)
    assert "acceptance 1.0 with a healthy server" in found.pop("draft_is_accepted")
    assert "max_running_requests: None without speculation, 48 with it" in found.pop("equal_arms")
    # Judged apart: a draft of which nothing is accepted changes no answer.
    assert found == {}, found
    assert {e.gate for e in evidence} == {"draft_is_accepted", "equal_arms", "greedy"}


def test_a_verify_that_accepts_a_wrong_token_changes_the_answers(stack_python: Path, tmp_path: Path) -> None:
    evidence = judged(
        tmp_path,
        stack_python,
        "equal_arms or greedy",
        DRAFT_FOLDER,
        arguments="max-running-requests = 16",
        environment=f'PYTHONPATH = "{PLANTED}"\nPLANTED = "accepts-a-wrong-token"',
    )
    found = red(evidence)
    assert list(found) == ["greedy"], found
    assert "nats below" in found["greedy"] or "not among the target's likely tokens" in found["greedy"]


@pytest.fixture(scope="module")
def shipped() -> Candidate:
    """The lane's own candidate, with the bounds that it ships with."""
    profile = load_profiles(ROOT / "fixtures" / "profiles")["cpu"]
    return select(load_candidates(ROOT / "fixtures" / "candidates" / "cpu", profile), ["smollm2-eagle3"])[0]


@pytest.fixture(scope="module")
def pool(stack_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerPool]:
    """Launches real servers; the last is stopped afterwards."""
    profile, stack = load_profiles(ROOT / "fixtures" / "profiles")["cpu"], read_stack(stack_python)

    def make(candidate: Candidate, log: Path, slots: tuple[int, ...]) -> Server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SGLGATE_CACHE", str(CACHE))
            return Server(with_models(candidate), profile, stack, resolve_model(candidate.model), log)

    pool = ServerPool(make, tmp_path_factory.mktemp("logs"))
    yield pool
    pool.stop()


@contextmanager
def load_of_others() -> Iterator[None]:
    """A stranger's process on one core: no descendant of the suite, or it would count as the suite's own."""
    spin = f"exec {sys.executable} -c 'while True: pass' >/dev/null & echo $!"
    pid = int(subprocess.run(["sh", "-c", spin], capture_output=True, text=True, check=True).stdout)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_client_that_is_the_limit_is_unfit(pool: ServerPool, shipped: Candidate) -> None:
    server = pool.get(baseline_of(shipped))
    cell = Cell("chat", 4, 4, 24, "{prompt}")
    prompts = prompts_of(PROMPTS, ["chat"])
    done = threading.Event()

    def keep_the_interpreter() -> None:
        # One call that does not let go of the interpreter for about half a second.
        while not done.is_set():
            sum(range(20_000_000))

    thread = threading.Thread(target=keep_the_interpreter)
    thread.start()
    try:
        with pytest.raises(UnfitError, match="the client is the limit"):
            measure_cell(server, cell, prompts)
    finally:
        done.set()
        thread.join()


def test_ten_percent_more_a_round_is_not_green(pool: ServerPool, shipped: Candidate, tmp_path: Path) -> None:
    # One server that is slow while a file is there: turns of a few seconds are nearer to each other than launches,
    # and a shared machine drifts by more than ten percent from one launch to the next.
    slow = tmp_path / "slow"
    planted = {"PYTHONPATH": str(PLANTED), "PLANTED": "slow-round", "PLANTED_WHILE": str(slow)}
    server = pool.fresh(shipped.model_copy(update={"environment": {**shipped.environment, **planted}}))
    text = shipped.expect.eagle3.template.replace("{prompt}", "Write a short story about a lighthouse keeper.")
    plan = LoadPlan(server.client.base_url, PromptSet.of_texts("chat", (text,)), ClosedLoop(1, 1), 32, 0)

    def rate(is_slow: bool) -> float:
        slow.touch() if is_slow else slow.unlink(missing_ok=True)
        flush(server.client)
        metrics = run_load(plan).metrics
        assert metrics is not None
        assert metrics.tpot_ms is not None
        return 1000 / metrics.tpot_ms.mean

    def measure(_):
        turns = [(is_slow, rate(is_slow)) for is_slow in (False, True, True, False) * 2]
        arms = (geometric_mean([r for is_slow, r in turns if is_slow is which]) for which in (False, True))
        return Block(*arms, order="ABBA")

    rate(False)
    found = drive(Rule.at_least(0.97, design_effect=0.1, looks=(4,), alphas=(0.05,)), measure)
    print(found.reason)
    assert "planted: slow-round" in server.log.read_text()
    # On a machine that others keep busy the interval is too wide to prove the loss; that is no green either.
    assert found.verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE), found.reason
    assert found.ratio < 0.97


def test_load_of_others_in_some_launches_makes_the_machine_unfit(
    pool: ServerPool, telemetry: Telemetry, shipped: Candidate
) -> None:
    baseline, cell = baseline_of(shipped), Cell("chat", 1, 2, 24, "{prompt}")
    prompts = prompts_of(PROMPTS, ["chat"])
    rules = {cell.name: Rule.at_least(0.9, design_effect=0.1, void_rules=CPU_VOID_RULES)}

    def measure(order):
        alone = run_arm(pool, telemetry, baseline, [cell], prompts)
        with load_of_others():
            return BlockRun(order, alone, run_arm(pool, telemetry, baseline, [cell], prompts))

    found = judge_fitness(rules, measure, [2])
    fit = found.fitness[cell.name]
    assert fit.verdict is Verdict.UNFIT, fit.reason
    assert len(found.aa_runs) == 3
    assert "candidate launch: foreign load" in fit.reason
    assert "baseline launch" not in fit.reason
