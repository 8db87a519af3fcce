"""A stack in a container: paths, ports and variables reach the inside, and nothing of it is left."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from sglgate.config import Candidate, Profile
from sglgate.container import Container, folders_of, parse_container
from sglgate.errors import MisuseError
from sglgate.launch import Server
from sglgate.launch.errors import LeftoverError
from sglgate.stack import find_stack, read_stack

FAKE = Path(__file__).parent / "fake_stack" / "python"
#: An engine without a daemon behind it: it notes how it was called, and runs what comes after the image with the
#: variables that were named and no others.
ENGINE = """#!/usr/bin/env python3
import json, os, sys
with open(os.environ["ENGINE_LOG"], "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
if sys.argv[1] == "ps":
    print(os.environ.get("ENGINE_LEFT", ""), end="")
if sys.argv[1] != "run":
    sys.exit(int(os.environ.get("ENGINE_DOWN", 0)) if sys.argv[1] == "ps" else 0)
words = sys.argv[2:]
at = words.index("image:1")
named = [words[i + 1] for i, word in enumerate(words[:at]) if word == "-e"]
kept = {n: os.environ[n] for n in [*named, "FAKE_PYTHON", "PATH"]}
os.execve(os.environ["FAKE_STACK"], ["python3", *words[at + 2:]], kept)
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on PATH with a ``docker``; its calls are in ``calls``."""
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(ENGINE)
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{docker.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ENGINE_LOG", str(tmp_path / "calls"))
    monkeypatch.setenv("FAKE_STACK", str(FAKE))
    return tmp_path


def calls(engine: Path) -> list[list[str]]:
    return [json.loads(line) for line in (engine / "calls").read_text().splitlines()]


def container_server(engine: Path, profile: Profile) -> Server:
    stack = read_stack(find_stack("docker run --shm-size 32g --gpus all image:1", engine))
    (engine / "model").mkdir()
    candidate = Candidate.model_validate(
        {"name": "c", "profile": "cpu", "file": "c", "reason": "r", "model": "m", "environment": {"HF_TOKEN": "secret"}}
    )
    (engine / "logs").mkdir()
    return Server(candidate, profile, stack, str(engine / "model"), engine / "logs" / "c.log")


def test_the_fingerprint_is_read_from_inside(engine: Path) -> None:
    stack = read_stack(find_stack("docker run image:1", engine))

    assert stack.digest == read_stack(FAKE).digest
    (call,) = calls(engine)
    assert call[:5] == ["run", "--rm", "-i", "--network", "host"]
    assert call[call.index("image:1") + 1] == "python3"
    script = Path(call[-1])
    assert f"{script.parent}:{script.parent}:ro" in call


def test_a_server_runs_inside_is_asked_over_the_hosts_network_and_removed(engine: Path, profile: Profile) -> None:
    with container_server(engine, profile) as server:
        assert server.info["model_path"] == server.model

    _, run, *farewell = calls(engine)
    name = run[run.index("--name") + 1]
    assert farewell == [["rm", "-f", name], ["ps", "-aq", "--filter", f"name=^{name}$"]]
    assert f"{server.model}:{server.model}:ro" in run
    assert f"{server.log.parent}:{server.log.parent}" in run, "writable: profiles are written there"
    assert run[run.index("image:1") - 4 : run.index("image:1") + 1] == ["--shm-size", "32g", "--gpus", "all", "image:1"]
    assert "HF_TOKEN" in run
    assert not any("secret" in word for word in run), "ps would show it"


@pytest.mark.parametrize(("variable", "value"), [("ENGINE_LEFT", "f00d"), ("ENGINE_DOWN", "1")])
def test_a_container_that_is_not_proved_gone_stops_the_run(
    engine: Path, profile: Profile, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    server = container_server(engine, profile)
    monkeypatch.setenv(variable, value)
    server.start()

    with pytest.raises(LeftoverError, match="not proved gone"):
        server.stop()


def test_apptainer_gets_its_variables_by_its_own_names_and_needs_no_farewell() -> None:
    stack = Container("/usr/bin/apptainer", ("--nv", "sglang.sif"))

    argv = stack.command(["-m", "x"], ["A"], {Path("/models"): False, Path("/logs"): True}, "name")

    assert argv == [
        "/usr/bin/apptainer", "exec", "--cleanenv", "--bind", "/logs:/logs", "--bind", "/models:/models:ro", "--nv",
        "sglang.sif", "python3", "-m", "x",
    ]  # fmt: skip
    assert stack.client_environment({"PATH": "p"}, {"A": "1"}) == {"PATH": "p", "APPTAINERENV_A": "1"}
    assert stack.farewell("name") == ()


def test_the_links_of_a_cached_model_are_mounted_with_it(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "1").write_text("w")
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "weights").symlink_to("../blobs/1")

    assert folders_of([str(tmp_path / "snapshot"), "--tp-size", "relative"]) == {
        tmp_path / "snapshot", tmp_path / "blobs",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("docker ps image", "docker run OPTIONS IMAGE"),
        ("docker run", "docker run OPTIONS IMAGE"),
        ("docker run --network=bridge image:1", "host's own network"),
        ("docker run -p 1:1 image:1", "host's own network"),
        ("podman run image:1", "no such container engine"),
    ],
)
def test_a_container_command_that_cannot_work_is_refused(engine: Path, text: str, says: str, monkeypatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None if name == "podman" else name)
    with pytest.raises(MisuseError, match=says):
        parse_container(text)


def test_a_path_is_no_container() -> None:
    assert parse_container("/opt/docker") is None
    assert parse_container("docker") is None


def test_a_whole_lane_runs_in_a_container(engine: Path) -> None:
    root = Path(__file__).parents[1]
    (engine / "model").mkdir()
    (engine / "model" / "config.json").write_text("{}")
    (engine / "c.toml").write_text(f'name = "c"\nreason = "r"\nmodel = "{engine / "model"}"\n')
    command = [os.environ["FAKE_PYTHON"], "-m", "pytest", "-p", "no:cacheprovider", "-m", "cpu and launch"]
    paths = [f"--candidates={engine}", f"--reports={engine / 'reports'}", "--stack=docker run image:1"]

    done = subprocess.run([*command, *paths], cwd=root, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
