"""What preflight makes of an answer, where no recorded node shows it: what is unknown is never good."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from sglgate.config import Profile, load_profiles
from sglgate.config.profile import Bounds
from sglgate.errors import MisuseError
from sglgate.node import Replay
from sglgate.node.facts import HostSample, ModelFiles, Nvml, ProbeAnswer, Room, Sample, ToolOutput
from sglgate.preflight import ask, fabric, facts, gpus, host
from sglgate.preflight.check import Check, count
from sglgate.preflight.matrix import peer_matrix

ROOT = Path(__file__).parents[2]
GOOD = Replay(ROOT / "fixtures" / "replay" / "blackwell-good")
PROFILE = load_profiles(ROOT / "fixtures" / "profiles")["blackwell"]
BOUNDS = PROFILE.preflight


@pytest.mark.parametrize("value", [None, float("nan"), "many", 11])
def test_a_value_that_is_unknown_or_beyond_the_bound_does_not_hold(value: object) -> None:
    check = Check("m", value, 10, "at_most", "x", "do something")

    assert not check.holds
    assert "remedy: do something" in check.reason


def test_nothing_to_look_at_is_red() -> None:
    assert not count("m", [], "r", n=0).holds


@pytest.mark.parametrize(
    ("driver", "torch_cuda", "problem"),
    [
        ("550.54.14", "12.8", "older than 570"),
        ("600.1", "12.8", "newer than 595"),
        ("575.51.03", "13.0", "serves up to 12.9"),
        ("575.51.03", None, "without CUDA"),
        ("575.51.03", "12.9", None),
        # An older minor version serves a newer one.
        ("575.51.03", "12.99", None),
    ],
)
def test_driver_and_cuda(driver: str, torch_cuda: str | None, problem: str | None) -> None:
    nvml = Nvml(driver=driver, cuda="12.9", cards={})

    check = gpus.driver(nvml, Bounds(min_driver="570", max_driver="595"), torch_cuda)

    assert check.holds is (problem is None)
    assert problem is None or problem in check.reason


def host_samples(busy_s: float, own_s: float | None) -> list[Sample]:
    return [
        Sample(at="", t_s=0, host=HostSample(cores=4, busy_s=100, own_s=None if own_s is None else 50)),
        Sample(
            at="", t_s=2, host=HostSample(cores=4, busy_s=100 + busy_s, own_s=None if own_s is None else 50 + own_s)
        ),
    ]


@pytest.mark.parametrize(("busy_s", "own_s", "holds"), [(0.5, 0.4, True), (4.0, 0.4, False), (0.5, None, False)])
def test_foreign_load_of_the_host(busy_s: float, own_s: float | None, holds: bool) -> None:
    (check,) = gpus.idle(host_samples(busy_s, own_s), Bounds(), 0)

    assert check.holds is holds


def test_a_machine_full_of_others_work_is_full_and_not_more() -> None:
    (check,) = gpus.idle(host_samples(8.1, 0.0), Bounds(max_foreign_cpu_share=1.0), 0)

    assert (check.value, check.holds) == (1.0, True)


def test_a_gpu_that_is_not_in_the_samples_is_not_idle() -> None:
    assert "GPU 0 was not seen" in gpus.idle(host_samples(0, 0), Bounds(), 1)[0].reason


def test_acs_that_only_root_may_see_is_said_and_leaves_the_verdict_to_the_peers() -> None:
    class Unprivileged(Replay):
        def tool(self, name: str) -> ToolOutput:
            lspci = GOOD.tool("lspci").output.replace("Capabilities: [100 v1]", "Capabilities: <access denied>")
            return ToolOutput(output=lspci)

    checks = fabric.iommu(GOOD.nvml().gpus, Unprivileged(GOOD.folder), BOUNDS)

    assert [check.holds for check in checks] == [True]
    assert "root" in checks[0].detail["acs"]


def test_only_bridges_above_the_gpus_count() -> None:
    bridges, told = fabric.read_bridges(GOOD.tool("lspci").output)

    assert told
    assert [b.bdf for b in bridges if b.leads_to("0000:c8:00.0")] == ["0000:c7:01.0"]


@pytest.mark.parametrize(
    ("pair", "problem"),
    [
        ({"can_access": False}, "denies peer access"),
        ({"can_access": True, "copy": 0, "kernel_read": 0}, "kernel write was not tried"),
        ({"can_access": True, "copy": 4, "kernel_write": 0, "kernel_read": 0}, "copy left 4 wrong bytes"),
        ({"error": "AcceleratorError: gone"}, "gone"),
    ],
)
def test_a_pair_that_is_not_proved_is_broken(pair: dict, problem: str) -> None:
    whole = {"can_access": True, "copy": 0, "kernel_write": 0, "kernel_read": 0, "gb_per_s": 50.0}
    probed = ProbeAnswer(result={"pairs": {"0>1": pair | {"gb_per_s": 50.0}, "1>0": whole}})

    assert problem in fabric.peers(probed, 2, BOUNDS)[0].reason
    assert "1>0" not in fabric.peers(probed, 2, BOUNDS)[0].reason


def test_a_probe_that_died_leaves_every_pair_untried() -> None:
    checks = fabric.peers(ProbeAnswer(error="Segmentation fault"), 2, BOUNDS)

    assert checks[0].value == 3, "the probe, and both directions"


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (None, "did not finish"),
        ({"sizes": {}, "errors": {"1": "RuntimeError: x"}}, "rank 1"),
        ({"sizes": {"8": {"wrong_elements": 1, "us": 1}}, "finished": True}, "8 bytes: 1 wrong"),
        ({"sizes": {}, "stuck_at_bytes": 0}, "stuck at 0 bytes"),
    ],
)
def test_a_sweep_that_is_not_whole_is_red(result: dict | None, problem: str) -> None:
    assert problem in fabric.collectives(ProbeAnswer(result=result), 2, None).reason


@pytest.mark.parametrize(
    ("works_without", "words"), [(True, "with NCCL_P2P_DISABLE=1 it runs"), (False, "does not help")]
)
def test_a_hang_is_told_from_a_broken_nccl(works_without: bool, words: str) -> None:
    sizes = {"8": {"wrong_elements": 0, "us": 1.0}}
    apart = ProbeAnswer(result={"sizes": sizes, "finished": works_without})

    assert words in fabric.collectives(ProbeAnswer(result={"stuck_at_bytes": 8}), 2, apart).reason


def test_limits_in_the_kernels_words() -> None:
    text = (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max locked memory         8388608              8388608              bytes     \n"
        "Max open files            unlimited            unlimited            files     \n"
    )
    shm, files, locked = host.limits(
        Room(total_gib=1, free_gib=1), text, "", Bounds(min_locked_gib=1, min_open_files=9)
    )

    assert shm.holds
    assert files.holds
    assert (locked.holds, locked.value) == (False, 8388608 / 2**30)
    assert not host.limits(None, None, None, Bounds())[0].holds


def test_a_model_that_cannot_be_found_is_not_whole() -> None:
    check = host.models_whole({"a": "no such recipe", "b": ModelFiles(size_gib=1, files=1)})

    assert check.value == 1
    assert "a: no such recipe" in check.reason


def test_affinity_that_leaves_out_cores_is_named() -> None:
    class Bound(Replay):
        def text(self, path: str) -> str | None:
            return "Cpus_allowed_list:\t0-31,64-95\n" if path == "/proc/self/status" else super().text(path)

    check = host.numa(GOOD.nvml().gpus, Bound(GOOD.folder), BOUNDS)

    assert "may not use 64 of 64 cores of NUMA node 1" in check.reason


def facts_now(**changes: object) -> facts.NodeFacts:
    found = facts.facts_of(GOOD, PROFILE, "now", GOOD.nvml(), ask.kernels(GOOD, PROFILE), ask.peers(GOOD, PROFILE))
    return replace(found, **changes)


def test_facts_survive_their_file_and_hold_on_the_same_node(tmp_path: Path) -> None:
    file = tmp_path / "node.json"
    file.write_text(json.dumps(asdict(facts_now())))
    bounds = BOUNDS.model_copy(update={"node_facts": str(file)})

    pinned = facts.read_node_facts(PROFILE.model_copy(update={"preflight": bounds}))

    assert pinned == facts_now()
    assert pinned.loaded_sm_mhz == 2244.0
    assert len(pinned.peer_gb_per_s) == 56
    assert facts.as_pinned(pinned, facts_now()).holds


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"driver": "590.1"}, "driver 590.1, pinned 580.95.05"),
        ({"cards": facts_now().cards[:7]}, "GPU 7 is gone"),
        ({"cards": (replace(facts_now().cards[0], uuid="GPU-x"), *facts_now().cards[1:])}, "uuid GPU-x"),
        ({"loaded_sm_mhz": 1900.0}, "clock under load 1900"),
        ({"loaded_sm_mhz": None}, "clock under load None"),
        ({"peer_gb_per_s": {}}, "0>1: None GB/s"),
    ],
)
def test_a_fact_that_changed_is_named(changes: dict, problem: str) -> None:
    check = facts.as_pinned(facts_now(), facts_now(**changes))

    assert not check.holds
    assert problem in check.reason


def test_a_facts_file_that_is_absent_or_none_is_misuse(tmp_path: Path) -> None:
    def profile(file: Path) -> Profile:
        return PROFILE.model_copy(update={"preflight": BOUNDS.model_copy(update={"node_facts": str(file)})})

    with pytest.raises(MisuseError, match="cannot be read"):
        facts.read_node_facts(profile(tmp_path / "none.json"))
    (tmp_path / "bad.json").write_text('{"profile": "x"}')
    with pytest.raises(MisuseError, match="no facts file"):
        facts.read_node_facts(profile(tmp_path / "bad.json"))


def test_the_picture_strikes_a_broken_pair_out_and_escapes_its_title() -> None:
    good = {"gb_per_s": 50.0, "small_copy_us": 3.0}
    drawing = peer_matrix({"0>1": good, "1>0": good | {"kernel_write": 4}}, 3, "<x>")

    assert drawing.count("stroke-width") == 1
    assert drawing.count(">?<") == 4, "pairs that were not tried"
    assert "<x>" not in drawing


def test_a_card_that_sys_does_not_show_is_not_taken_for_one_without_an_iommu() -> None:
    class Blind(Replay):
        def text(self, path: str) -> str | None:
            return None

    assert "unknown" in fabric.iommu(GOOD.nvml().gpus, Blind(GOOD.folder), BOUNDS)[0].reason
