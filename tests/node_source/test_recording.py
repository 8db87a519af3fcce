"""What is recorded is what is replayed, and a recording that is laid over another changes only what it names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sglgate.errors import MisuseError
from sglgate.node import About, Live, NoGpuError, NotRecordedError, Recorder, Replay
from sglgate.node.facts import ModelFiles, Nvml, ProbeAnswer, Room, Sample, ToolOutput
from sglgate.node.recording import _laid_over

GOOD = Replay(Path(__file__).parents[2] / "fixtures" / "replay" / "blackwell-good")


class Answers:
    """A node that answers from the good recording, with one thing that it cannot tell."""

    def nvml(self) -> Nvml:
        return GOOD.nvml()

    def watch(self, count: int, interval_s: float) -> list[Sample]:
        return GOOD.watch(count, interval_s)

    def text(self, path: str) -> str | None:
        return GOOD.text(path)

    def tool(self, name: str) -> ToolOutput:
        return ToolOutput(output="", error="not permitted") if name == "lspci" else GOOD.tool(name)

    def room(self, place: str) -> Room | None:
        return None if place == "shm" else GOOD.room(place)

    def model(self, name: str) -> ModelFiles:
        return GOOD.model(name)

    def probe(self, name: str, arguments: list[str], deadline_s: float) -> ProbeAnswer:
        return GOOD.probe(name, arguments, deadline_s)


def test_every_answer_survives_the_recording(tmp_path: Path) -> None:
    recorder = Recorder(Answers(), tmp_path / "node", About(about="a test", made="live"))
    replay = Replay(tmp_path / "node")
    sweep = ("collectives", ["--ranks", "8", "--device", "cuda"], 1.0)
    model = "moonshotai/Kimi-K2.5"

    assert recorder.nvml() == replay.nvml()
    assert recorder.watch(3, 1) == replay.watch(3, 1)
    assert recorder.text("/proc/meminfo") == replay.text("/proc/meminfo")
    assert (recorder.text("/proc/none"), replay.text("/proc/none")) == (None, None)
    assert recorder.tool("kernel-log") == replay.tool("kernel-log")
    assert recorder.tool("lspci") == replay.tool("lspci")
    assert [recorder.room(place) for place in ("shm", "reports")] == [replay.room(p) for p in ("shm", "reports")]
    assert recorder.model(model) == replay.model(model)
    assert recorder.probe(*sweep) == replay.probe(*sweep)
    assert replay.about.made == "live"


def test_what_was_not_recorded_is_an_error_and_no_guess(tmp_path: Path) -> None:
    Recorder(Answers(), tmp_path / "node", About(about="a test", made="live"))
    replay = Replay(tmp_path / "node")

    for ask in (
        lambda: replay.watch(1, 1),
        lambda: replay.tool("lspci"),
        lambda: replay.room("shm"),
        lambda: replay.model("m"),
        lambda: replay.probe("peers", [], 1),
    ):
        with pytest.raises(NotRecordedError, match="the recording has no"):
            ask()
    with pytest.raises(NoGpuError):
        replay.nvml()


def test_a_folder_with_something_in_it_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()

    with pytest.raises(MisuseError, match="not empty"):
        Recorder(Answers(), tmp_path, About(about="a test", made="live"))


def test_an_answer_of_another_shape_is_misuse(tmp_path: Path) -> None:
    (tmp_path / "recording.json").write_text('{"about": "x", "made": "written"}')
    (tmp_path / "nvml.json").write_text('{"driver": "1"}')

    with pytest.raises(MisuseError, match="cuda"):
        Replay(tmp_path).nvml()


def test_a_patch_follows_rfc_7386() -> None:
    below = {"a": {"b": 1, "c": None}, "d": [1]}

    assert _laid_over(below, {"a": {"b": None, "e": 2}, "d": [2]}) == {"a": {"c": None, "e": 2}, "d": [2]}


def test_a_text_of_the_upper_recording_replaces_and_an_error_wins_over_the_lower_output(tmp_path: Path) -> None:
    (tmp_path / "recording.json").write_text(json.dumps({"about": "x", "made": "written", "base": str(GOOD.folder)}))
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "lspci.error.txt").write_text("denied")

    assert Replay(tmp_path).tool("lspci") == ToolOutput(output="", error="denied")
    assert Replay(tmp_path).tool("kernel-log") == GOOD.tool("kernel-log")


def test_the_live_node_answers_what_a_machine_without_gpus_can() -> None:
    node = Live(gpus=False)
    first, last = node.watch(2, 0.05)

    assert last.t_s > first.t_s
    assert last.host.busy_s >= first.host.busy_s > 0
    assert last.host.own_s is not None
    assert node.room("shm") is not None
    assert "MemTotal" in node.text("/proc/meminfo")
    assert node.text("/proc/not-there") is None
