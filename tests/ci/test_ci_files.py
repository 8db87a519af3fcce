"""What runs in CI holds its rules: pinned, queued, cleaned before and after, no stranger's code on a GPU."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / "ci" / "github").glob("*.yml"))


@pytest.fixture(params=WORKFLOWS, ids=lambda path: path.stem)
def workflow(request: pytest.FixtureRequest) -> dict[str, Any]:
    return yaml.safe_load(request.param.read_text())


def gpu_jobs(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [job for job in workflow["jobs"].values() if "self-hosted" in job["runs-on"]]


def test_the_linters_accept_everything() -> None:
    done = subprocess.run(
        [str(ROOT / "ci" / "lint")],
        env={"PATH": "/usr/bin:/bin", "SGLGATE_LINT_BIN": str(Path(sys.executable).parent)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_action_is_pinned_by_commit_and_says_of_which_release() -> None:
    for path in WORKFLOWS:
        uses = re.findall(r"uses: (.*)", path.read_text())
        assert uses
        for action in uses:
            assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def test_runs_on_one_machine_queue_and_are_never_cancelled_by_another(workflow: dict[str, Any]) -> None:
    for job in gpu_jobs(workflow):
        assert job["concurrency"] == {"group": "sglgate-blackwell", "cancel-in-progress": False, "queue": "max"}


def test_a_gpu_job_cleans_before_and_after_and_uploads_whatever_happened(workflow: dict[str, Any]) -> None:
    for job in gpu_jobs(workflow):
        steps = job["steps"]
        runs = [step.get("run", "") for step in steps]
        before, after = runs.index("ci/job before"), runs.index("ci/job after")
        judging = next(n for n, run in enumerate(runs) if run.startswith(("ci/job run", "ci/job signoff")))
        assert before < judging < after
        upload = next(step for step in steps if "upload-artifact" in step.get("uses", ""))
        assert steps[after]["if"] == upload["if"] == "always()"
        assert "timeout-minutes" in job
        assert steps[0]["with"]["persist-credentials"] is False


def test_a_fork_never_gets_the_gpu_machine(workflow: dict[str, Any]) -> None:
    # PyYAML reads the key "on" as True.
    if "pull_request" in workflow[True]:
        for job in gpu_jobs(workflow):
            assert "head.repo.full_name == github.repository" in job["if"]
    assert "pull_request_target" not in workflow[True]


def test_no_input_of_a_person_is_pasted_into_a_shell(workflow: dict[str, Any]) -> None:
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            assert "${{" not in step.get("run", "")


def test_rights_are_read_only_but_for_the_job_that_publishes(workflow: dict[str, Any]) -> None:
    assert workflow["permissions"] == {"contents": "read"}
    for job in gpu_jobs(workflow):
        assert "permissions" not in job


def test_the_runner_has_no_capability_and_writes_nowhere_else() -> None:
    unit = (ROOT / "ci" / "runner" / "sglgate-runner.service").read_text()
    for line in ("NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=", "User=sglgate"):
        assert f"\n{line}\n" in unit
    assert "ConditionPathExists=!/var/lib/sglgate/out-of-service" in unit


@pytest.fixture
def node(tmp_path: Path) -> dict[str, str]:
    """A machine with Slurm's scontrol, which writes down what it is told."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "scontrol").write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/told\n[ "$1" = show ] && echo "Reason=sglgate: dirty"\nexit 0\n'
    )
    (tools / "python").write_text(
        f"#!/bin/sh\n"
        f"if [ -e {tmp_path}/dirt ]; then echo 'dirty     GPU 0 holds 9 MiB'; touch {tmp_path}/mark; exit 3; fi\n"
        f"rm -f {tmp_path}/mark\n"
    )
    for tool in tools.iterdir():
        tool.chmod(0o755)
    return {
        "PATH": f"{tools}:{Path(shutil.which('bash') or '/bin/bash').parent}:/usr/bin:/bin",
        "SGLGATE_PYTHON": str(tools / "python"),
        "SGLGATE_OUT_OF_SERVICE": str(tmp_path / "mark"),
        "SLURMD_NODENAME": "node7",
    }


def test_slurm_drains_a_dirty_node_and_resumes_it_once_it_is_clean(node: dict[str, str], tmp_path: Path) -> None:
    def run(script: str) -> str:
        (tmp_path / "told").write_text("")
        subprocess.run([str(ROOT / "ci" / "slurm" / script)], env=node, check=True, capture_output=True)
        return (tmp_path / "told").read_text()

    assert run("epilog") == "", "a clean node stays"
    (tmp_path / "dirt").touch()
    assert "nodename=node7 state=drain reason=sglgate: dirty     GPU 0 holds 9 MiB" in run("epilog")
    assert "state=resume" not in run("health-check")
    (tmp_path / "dirt").unlink()
    assert "nodename=node7 state=resume" in run("health-check")
    assert run("health-check") == "", "nothing to resume"


def test_kubernetes_runs_one_job_a_node_and_tries_nothing_again() -> None:
    job = yaml.safe_load((ROOT / "ci" / "kubernetes" / "job.yaml").read_text())
    spec = job["spec"]["template"]["spec"]

    assert job["spec"]["backoffLimit"] == 0
    assert spec["restartPolicy"] == "Never"
    assert spec["automountServiceAccountToken"] is False
    (rule,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["topologyKey"] == "kubernetes.io/hostname"
    for container in (*spec["initContainers"], *spec["containers"]):
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
