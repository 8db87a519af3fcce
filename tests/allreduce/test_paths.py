import pytest

from sglgate.allreduce import paths
from sglgate.allreduce.paths import Claim, Host, Refusal
from sglgate.allreduce.sizes import MIB
from sglgate.errors import MisuseError

NEW, OLD = (0, 5, 23), (0, 5, 9)


def refusal(name: str, host: Host) -> str:
    found = paths.claim(name, host)
    assert isinstance(found, Refusal)
    return found.reason


def claimed(name: str, host: Host) -> Claim:
    found = paths.claim(name, host)
    assert isinstance(found, Claim), found
    return found


def test_custom_all_reduce_refuses_eight_pcie_gpus() -> None:
    assert "more than two PCIe-only GPUs" in refusal("custom_v1", Host(NEW, 8, arch_major=12))
    assert "full NVLink mesh" in refusal("custom_v2", Host(NEW, 8, arch_major=12))


def test_custom_v1_serves_two_pcie_gpus_up_to_8_mib_in_vectors() -> None:
    claim = claimed("custom_v1", Host(NEW, 2, arch_major=12))
    assert claim.covers((1, 8), "bf16")
    assert not claim.covers((1, 9), "bf16")
    assert claim.covers((1, 4 * MIB), "bf16")
    assert not claim.covers((1, 4 * MIB + 8), "bf16")


def test_custom_v1_excluded_its_own_limit_until_0_5_6() -> None:
    at = (1, 4 * MIB)
    assert not claimed("custom_v1", Host((0, 5, 6), 2)).covers(at, "bf16")
    assert claimed("custom_v1", Host(OLD, 2)).covers(at, "bf16")


def test_pcie_ipc_serves_bf16_in_two_dimensions_up_to_its_workspace() -> None:
    limit = 64 * 7168 * 2
    claim = claimed("pcie_ipc", Host(NEW, 8, arch_major=12, path_limit_bytes=limit))
    assert claim.covers((64, 7168), "bf16")
    assert not claim.covers((65, 7168), "bf16")
    assert not claim.covers((64 * 7168,), "bf16")
    assert not claim.covers((1, 7168), "fp16")


def test_pcie_ipc_does_not_exist_before_0_5_23() -> None:
    assert "0.5.9 has no pcie_ipc" in refusal("pcie_ipc", Host(OLD, 8, path_limit_bytes=1))


def test_a_path_whose_limit_is_unknown_claims_nothing() -> None:
    assert "unknown" in refusal("pcie_ipc", Host(NEW, 8))
    assert "no size limit" in refusal("shm", Host(NEW, 2))
    assert "must be stated" in refusal("mscclpp", Host(NEW, 8))


@pytest.mark.parametrize("name", ["torch_symm_mem", "flashinfer_fusion"])
def test_paths_for_hopper_and_datacenter_blackwell_refuse_sm120(name: str) -> None:
    assert "not SM12" in refusal(name, Host(NEW, 8, arch_major=12))
    assert isinstance(paths.claim(name, Host(NEW, 8, arch_major=10)), Claim)


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "nccl"),
        ("ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sum_bf16(ncclSymkDevWorkArgs4K)", "nccl_symm_mem"),
        ("void sglang::cross_device_reduce_1stage<__nv_bfloat16, 2>(RankData*, ...)", "custom_v1"),
        ("all_reduce_2shot_pull_kernel<__nv_bfloat16, 8>", "custom_v2"),
        ("void flashinfer::pcie_ipc::ipc_topo_rsag8_block_param_kernel<__nv_bfloat16>", "pcie_ipc"),
        ("void flashinfer::pcie_ipc::ipc_rsag_ring_push_param_kernel<__nv_bfloat16, 4>", "pcie_ipc"),
        ("ipc_tp2_remote_push_kernel<__nv_bfloat16>", "pcie_ipc"),
        ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>", "torch_symm_mem"),
        (
            "allreduce_fusion_kernel_oneshot_lamport<kARResidualRMSNorm, __nv_bfloat16, 8>",
            "flashinfer_fusion",
        ),
        ("gloo:all_reduce", "gloo"),
        ("sglgate::shm_all_reduce", "shm"),
    ],
)
def test_a_kernel_is_recognised_by_its_path_and_by_no_other(kernel: str, name: str) -> None:
    assert [path.name for path in paths.PATHS.values() if path.ran([kernel])] == [name]


def test_a_kernel_that_only_launches_beside_a_reduction_proves_nothing() -> None:
    others = ["ncclDevKernel_AllGather_RING_LL", "aten::add_", "sgl_kernel::shm_allreduce", "memcpy_kernel"]
    assert not any(path.ran(others) for path in paths.PATHS.values())


def test_sglangs_refusal_is_found_in_its_log() -> None:
    line = (
        "WARNING CustomAllreduce is disabled because it's not supported on more than two PCIe-only GPUs. "
        "To silence this warning, specify disable_custom_all_reduce=True explicitly."
    )
    assert paths.path("custom_v1").refused(["INFO sglang is using nccl==2.28", line]) == [line]


def test_an_unknown_path_is_misuse_and_names_the_likely_one() -> None:
    with pytest.raises(MisuseError, match="did you mean pcie_ipc"):
        paths.path("pcieipc")


def test_server_flags_become_the_workers_settings() -> None:
    flags = ("--tp", "8", "--enable-symm-mem", "--disable-custom-all-reduce")
    assert paths.worker_settings(flags) == {"enable_symm_mem": True, "disable_custom_all_reduce": True}


def test_the_worker_gets_the_environment_that_sglang_gives_its_server() -> None:
    assert paths.server_environment(())["NCCL_CUMEM_ENABLE"] == "0"
    assert paths.server_environment(("--enable-symm-mem",))["NCCL_NVLS_ENABLE"] == "1"


def test_every_flag_of_a_path_is_one_the_worker_can_set_or_the_server_alone_can() -> None:
    for path in paths.PATHS.values():
        flags = path.flags(NEW)
        if path.in_worker:
            assert paths.worker_settings(flags) == dict(path.settings), path.name


@pytest.mark.parametrize(("text", "release"), [("0.5.9", (0, 5, 9)), ("0.5.9.post1", (0, 5, 9)), ("0.6", (0, 6))])
def test_releases_are_compared_by_number(text: str, release: tuple) -> None:
    assert paths.parse_release(text) == release
