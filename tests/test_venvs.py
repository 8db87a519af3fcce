"""An environment that is whole is left alone; one that is not is finished or repaired. A stack is made of one."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from sglgate import making, venvs
from sglgate.cli import main
from sglgate.making import StackRecipe, ensure_stack
from sglgate.node import nvml
from sglgate.venvs import SetupError, check_disk, check_machine, ensure_venv, odd_files, run_logged


@pytest.fixture
def installs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Counts installations; a venv is made in no time."""

    def make_venv(argv: list[str], *_: object) -> None:
        python = Path(argv[-1]) / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text("#!/bin/sh\nexit 0\n")
        python.chmod(0o755)

    monkeypatch.setattr(venvs, "run_logged", make_venv)
    return []


def make_distribution(venv: Path, content: bytes = b"x = 1\n") -> Path:
    site = venv / "lib" / "python3.11" / "site-packages"
    (site / "thing-1.0.dist-info").mkdir(parents=True)
    (site / "thing.py").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    record = f"thing.py,sha256={digest},{len(content)}\n../../../bin/thing,sha256=0,999\nthing-1.0.dist-info/RECORD,,\n"
    (site / "thing-1.0.dist-info" / "RECORD").write_text(record)
    return site


def test_a_whole_environment_is_not_installed_again(installs: list[str], tmp_path: Path) -> None:
    ensure_venv(tmp_path / "v", "key", "test", installs.append)
    make_distribution(tmp_path / "v")
    ensure_venv(tmp_path / "v", "key", "test", installs.append)

    assert len(installs) == 1


def test_another_key_or_an_interrupted_install_is_finished(installs: list[str], tmp_path: Path) -> None:
    def interrupted(_: str) -> None:
        raise SetupError("killed")

    with pytest.raises(SetupError):
        ensure_venv(tmp_path / "v", "key", "test", interrupted)
    ensure_venv(tmp_path / "v", "key", "test", installs.append)
    ensure_venv(tmp_path / "v", "new key", "test", installs.append)

    assert len(installs) == 2


def test_a_truncated_file_is_found_and_its_package_installed_anew(installs: list[str], tmp_path: Path) -> None:
    ensure_venv(tmp_path / "v", "key", "test", installs.append)
    site = make_distribution(tmp_path / "v")
    (site / "thing.py").write_bytes(b"x")
    assert odd_files(tmp_path / "v") == {"thing.py": ("thing-1.0", 1)}

    ensure_venv(tmp_path / "v", "key", "test", installs.append)

    assert len(installs) == 2
    assert not (site / "thing-1.0.dist-info").exists(), "pip would take the package for installed"


def test_a_wheel_with_a_wrong_record_is_installed_once(installs: list[str], tmp_path: Path) -> None:
    def install(python: str) -> None:
        installs.append(python)
        site = make_distribution(tmp_path / "v")
        (site / "thing.py").write_bytes(b"not as recorded")

    for _ in range(2):
        ensure_venv(tmp_path / "v", "key", "test", install)

    assert len(installs) == 1


def test_too_little_disk_is_told_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(venvs.shutil, "disk_usage", lambda _: type("U", (), {"free": 5e9})())

    with pytest.raises(SetupError, match=r"13 GB are needed .* 5 GB are free"):
        check_disk(13)


def test_a_wrong_python_is_told_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(venvs.sys, "version_info", (3, 9, 1))

    with pytest.raises(SetupError, match=r"Python 3.11 or 3.12 is needed"):
        check_machine()


def test_a_failed_step_shows_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="the last words"):
        run_logged(["sh", "-c", "echo the last words; exit 3"], tmp_path / "x.log", "a step")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose pip only notes its arguments, in ``pip.log``; no GPU can be seen."""
    (tmp_path / "fixtures" / "cpu_stack").mkdir(parents=True)
    (tmp_path / "ci").mkdir()

    def note(argv: list[str], *_: object) -> None:
        if argv[1:3] == ["-m", "venv"]:
            python = Path(argv[-1]) / "bin" / "python"
            python.parent.mkdir(parents=True)
            python.write_text("#!/bin/sh\nexit 0\n")
            python.chmod(0o755)
        else:
            with (tmp_path / "pip.log").open("a") as log:
                log.write(" ".join(argv[3:]) + "\n")

    def no_gpu() -> object:
        raise nvml.NoGpuError("none here")

    monkeypatch.setattr(venvs, "run_logged", note)
    monkeypatch.setattr(making, "run_logged", note)
    monkeypatch.setattr(nvml, "read_nvml", no_gpu)
    monkeypatch.setattr(venvs, "check_disk", lambda _: None)
    return tmp_path


def test_a_release_becomes_a_pinned_stack_with_the_cpu_package_and_is_made_once(checkout: Path, capsys) -> None:
    pinned = checkout / "ci" / "constraints-stack-0.5.9.txt"
    pinned.write_text("torch==2.9.1\n")
    command = ["stack", "create", "--from", "sglang==0.5.9", "--root", str(checkout)]

    assert main(command) == 0
    assert main(command) == 0

    assert (checkout / ".stacks" / "cpu-0.5.9" / "bin" / "python").exists()
    assert (checkout / "pip.log").read_text().splitlines() == [
        f"install -c {pinned} sglang==0.5.9",
        f"install -c {pinned} --no-deps --force-reinstall {checkout / 'fixtures' / 'cpu_stack'}",
    ]
    assert "pinned by constraints-stack-0.5.9.txt" in capsys.readouterr().out


def test_a_stack_beside_a_gpu_gets_no_cpu_package(checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(nvml, "read_nvml", lambda: SimpleNamespace(gpus=[object()]))

    assert main(["stack", "create", "--from", "sglang==0.5.9", "--root", str(checkout)]) == 0

    assert (checkout / "pip.log").read_text() == "install sglang==0.5.9\n"
    assert (checkout / ".stacks" / "gpu-0.5.9").is_symlink()
    assert "not pinned" in capsys.readouterr().out


def test_an_altered_requirements_file_is_another_stack(tmp_path: Path) -> None:
    wanted = tmp_path / "wanted.txt"
    folders = []
    for text in ("sglang==0.5.9\n", "sglang==0.5.10\n"):
        wanted.write_text(text)
        folders.append(StackRecipe("mine", (str(wanted),), None, cpu=False).folder)

    assert folders[0] != folders[1]


def test_a_folder_in_the_place_of_the_link_is_not_touched(checkout: Path) -> None:
    (checkout / ".stacks" / "mine").mkdir(parents=True)

    with pytest.raises(SetupError, match="move it away"):
        ensure_stack(StackRecipe("mine", ("sglang",), None, cpu=False), checkout)


@pytest.mark.parametrize(
    "arguments",
    [["--from", "absent.txt"], ["--from", "sglang", "--constraints", "absent"], ["--from", "x", "--root", "/"]],
)
def test_what_is_not_there_is_told_before_anything_is_made(checkout: Path, arguments: list[str], capsys) -> None:
    assert main(["stack", "create", "--root", str(checkout), *arguments]) == 2
    assert "absent" in (said := capsys.readouterr().err) or "not a checkout" in said
    assert not (checkout / ".stacks").exists()
