from types import SimpleNamespace

import pytest

from sglgate.allreduce import paths, topology
from sglgate.allreduce.paths import Claim, Refusal
from sglgate.allreduce.question import Question, ask, baseline_of
from sglgate.allreduce.topology import Topology
from sglgate.config import Candidate
from sglgate.errors import MisuseError

CONFIG = {"hidden_size": 7168}
PCIE = Topology(arch_major=12, full_nvlink=False)


def candidate_with(path: str, environment: dict | None = None, **arguments: object) -> Candidate:
    return Candidate.model_validate(
        {
            "name": "c",
            "profile": "blackwell",
            "file": "c.toml",
            "reason": "tests",
            "model": "model",
            "arguments": {name.replace("_", "-"): value for name, value in arguments.items()},
            "environment": environment or {},
            "expect": {"allreduce": {"path": path}},
        }
    )


def asked(path: str, *, environment: dict | None = None, config: dict = CONFIG, **arguments: object) -> Question:
    candidate = candidate_with(path, environment, **arguments)
    return ask(candidate, config, "0.5.23", world_size=8, gpus=PCIE)


def test_pcie_ipcs_limit_is_the_widest_verify_step() -> None:
    plain = asked("pcie_ipc", cuda_graph_max_bs=16)
    assert plain.host.path_limit_bytes == 16 * 7168 * 2
    drafted = asked("pcie_ipc", cuda_graph_max_bs=16, speculative_algorithm="EAGLE3", speculative_num_draft_tokens=4)
    assert drafted.host.path_limit_bytes == 16 * 4 * 7168 * 2
    assert (64, 7168) in drafted.geometry.shapes()


def test_pcie_ipcs_limit_can_be_stated() -> None:
    stated = asked("pcie_ipc", environment={"SGLANG_PCIE_IPC_MAX_NUMEL": "458752"})
    assert isinstance(stated.claim, Claim)
    assert stated.claim.max_bytes == 2 * 458752


def test_a_multimodal_config_states_its_hidden_size_inside() -> None:
    assert asked("nccl", config={"text_config": CONFIG}).geometry.hidden == 7168


def test_a_config_without_a_hidden_size_is_misuse() -> None:
    with pytest.raises(MisuseError, match="no hidden_size"):
        asked("nccl", config={})


def test_custom_all_reduce_on_this_node_is_refused_before_anything_runs() -> None:
    assert isinstance(asked("custom_v1").claim, Refusal)


@pytest.mark.parametrize("value", [None, "0", "many", "-1"])
def test_the_shm_path_needs_its_limit(value: str | None) -> None:
    environment = {} if value is None else {paths.SHM_LIMIT_VARIABLE: value}
    with pytest.raises(MisuseError, match="needs its size limit"):
        asked("shm", environment=environment, device="cpu")


def test_a_cpu_candidate_is_asked_less_prefill() -> None:
    rows = {rows for rows, _ in asked("gloo", device="cpu").geometry.shapes()}
    assert max(rows) == 512


def test_the_baseline_differs_only_in_what_asks_for_the_path() -> None:
    environment = {"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1", "NCCL_MIN_NCHANNELS": "16"}
    candidate = candidate_with("pcie_ipc", environment, tp_size=8, enable_symm_mem=True)
    baseline = baseline_of(candidate)
    assert baseline.name == "c--baseline"
    assert baseline.environment == {"NCCL_MIN_NCHANNELS": "16"}
    assert baseline.arguments == {"tp-size": 8, "disable-custom-all-reduce": True}


def test_nccl_with_a_variable_has_nccl_without_it_as_its_baseline() -> None:
    assert baseline_of(candidate_with("nccl", {"NCCL_PROTO": "LL"})).environment == {}
    plain = candidate_with("nccl")
    assert baseline_of(plain) is plain


class FakeNvml:
    NVML_P2P_CAPS_INDEX_NVLINK, NVML_P2P_STATUS_OK = 2, 0

    class NVMLError(Exception):
        pass

    def __init__(self, statuses: dict[tuple[int, int], int | None], gpus: int) -> None:
        self._statuses, self._gpus = statuses, gpus
        self.nvmlInit = self.nvmlShutdown = lambda: None
        self.nvmlDeviceGetCount = lambda: self._gpus
        self.nvmlDeviceGetHandleByIndex = lambda index: index
        self.nvmlDeviceGetCudaComputeCapability = lambda handle: (12, 0)

    def nvmlDeviceGetP2PStatus(self, left: int, right: int, what: int) -> int:  # noqa: N802 - NVML's name
        status = self._statuses.get((left, right), 0)
        if status is None:
            raise self.NVMLError
        return status


@pytest.mark.parametrize(
    ("statuses", "gpus", "full"),
    [({}, 3, True), ({(0, 2): 5}, 3, False), ({(1, 2): None}, 3, False), ({}, 1, False)],
)
def test_a_mesh_needs_every_pair(statuses: dict, gpus: int, full: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pynvml", FakeNvml(statuses, gpus))
    assert topology.read() == Topology(arch_major=12, full_nvlink=full)


def test_a_machine_without_a_driver_is_unfit(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = SimpleNamespace(NVMLError=ValueError, nvmlInit=lambda: int("no driver"))
    monkeypatch.setitem(__import__("sys").modules, "pynvml", broken)
    with pytest.raises(topology.UnfitError, match="no NVIDIA GPU"):
        topology.read()
