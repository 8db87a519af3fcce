"""Flags, environment names and rules of ``paths`` held against SGLang's own source.

Against every unpacked wheel under ``SGLGATE_WHEELS`` (``<release>/sglang/...``), and against the stack's own
sglang where there is one. The source is read, never imported: that needs no GPU and no torch.
"""

import ast
import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from sglgate.allreduce import paths
from sglgate.allreduce.paths import PATHS, Claim, Host, Release
from sglgate.allreduce.sizes import MIB


@dataclass(frozen=True)
class Source:
    release: Release
    folder: Path

    def text(self, *parts: str) -> str:
        return self.folder.joinpath("srt", *parts).read_text()

    def communicator(self, name: str) -> str:
        return self.text("distributed", "device_communicators", f"{name}.py")

    def server_arguments(self) -> str:
        groups = self.folder / "srt" / "arg_groups"
        fields = sorted((groups / "fields").glob("*.py")) if groups.exists() else []
        return "\n".join([self.text("server_args.py"), *(file.read_text() for file in fields)])

    def has(self, name: str) -> bool:
        return self.release >= PATHS[name].since


def _sources() -> list[Source]:
    found = []
    wheels = os.environ.get("SGLGATE_WHEELS")
    for folder in sorted(Path(wheels).iterdir()) if wheels else []:
        if (folder / "sglang").is_dir():
            found.append(Source(paths.parse_release(folder.name), folder / "sglang"))
    stack = Path(os.environ.get("SGLGATE_STACK", Path(__file__).parents[2] / ".stacks/cpu/bin/python"))
    for package in stack.parents[1].glob("lib/python3*/site-packages/sglang"):
        version = re.search(r"version = '([^']+)'", (package / "_version.py").read_text())
        assert version is not None, f"{package} does not tell its version"
        found.append(Source(paths.parse_release(version[1]), package))
    return found


SOURCES = _sources()


@pytest.fixture(params=SOURCES, ids=lambda source: ".".join(map(str, source.release)))
def source(request: pytest.FixtureRequest) -> Source:
    return request.param


def test_every_flag_exists(source: Source) -> None:
    arguments = source.server_arguments()
    for path in PATHS.values():
        for flag in path.flags(source.release) if source.has(path.name) else ():
            if flag.startswith("--"):
                field = flag.removeprefix("--").replace("-", "_")
                assert flag in arguments or re.search(rf"^    {field}:", arguments, re.M), (path.name, flag)


def test_every_environment_name_exists_where_the_path_does(source: Source) -> None:
    names = source.text("environ.py")
    for path in PATHS.values():
        if source.has(path.name):
            for name in path.env:
                expected = source.release >= PATHS["custom_v2"].since or path.name != "custom_v1"
                # Before v2 there is nothing to switch off, and the name is read by nobody.
                assert (f"{name} = Env" in names) is expected, (path.name, name)


def test_a_path_exists_from_its_first_release_on(source: Source) -> None:
    folder = source.folder / "srt" / "distributed" / "device_communicators"
    for name, file in (("custom_v2", "custom_all_reduce_v2.py"), ("pcie_ipc", "pcie_ipc_ar.py")):
        assert (folder / file).exists() is source.has(name), name


def test_the_workers_switches_exist(source: Source) -> None:
    state = source.text("distributed", "parallel_state.py")
    for names in (
        ("set_custom_all_reduce",),
        ("set_mscclpp", "set_mscclpp_all_reduce"),
        ("set_torch_symm_mem_all_reduce",),
        ("init_model_parallel_group",),
        ("init_distributed_environment",),
    ):
        assert any(f"def {name}(" in state for name in names), names
    assert "def is_symmetric_memory_enabled(" in source.communicator("pynccl_allocator")


def test_the_leaves_that_the_worker_watches_are_those_of_the_dispatch(source: Source) -> None:
    body = _method(source.text("distributed", "parallel_state.py"), "GroupCoordinator", "_all_reduce_out_place")
    called = set(re.findall(r"(\w+_comm)\.(\w+)\(", body)) - {("pynccl_comm", "change_state")}
    watched = {
        ("ca_comm", "custom_all_reduce"),
        ("pcie_ipc_comm", "pcie_ipc_all_reduce"),
        ("qr_comm", "quick_all_reduce"),
        ("pymscclpp_comm", "all_reduce"),
        ("torch_symm_mem_comm", "all_reduce"),
        ("pynccl_comm", "outplace_all_reduce"),
    }
    assert called <= watched, "a new leaf: the worker would call it unknown"


def test_custom_all_reduce_stands_before_pcie_ipc_in_the_dispatch(source: Source) -> None:
    if not source.has("pcie_ipc"):
        assert "pcie_ipc" not in source.text("distributed", "parallel_state.py")
        return
    state = source.text("distributed", "parallel_state.py")
    body = _method(state, "GroupCoordinator", "_resolve_outplace_all_reduce_method")
    order = re.findall(r'return "(\w+)"', body)
    assert order.index("ca") < order.index("pcie_ipc") < order.index("torch_symm_mem")


def test_a_cpu_tensor_goes_to_the_shm_op_or_to_torch(source: Source) -> None:
    body = _method(source.text("distributed", "parallel_state.py"), "GroupCoordinator", "all_reduce")
    cpu = body[body.index("if input_.is_cpu:") :]
    assert "is_shm_available(input_.dtype, self.world_size, self.local_size)" in cpu
    assert "torch.ops.sgl_kernel.shm_allreduce(input_, REDUCE_OP_SUM)" in cpu
    assert "torch.distributed.all_reduce(input_, group=self.device_group)" in cpu


def test_custom_v1_serves_16_byte_multiples_up_to_8_mib(source: Source) -> None:
    text = source.communicator("custom_all_reduce")
    assert re.search(r"_MAX_CAR_SIZE = 8192 \* 1024$", text, re.M)
    body = _method(text, "CustomAllreduce", "should_custom_ar")
    assert "inp_size % 16 != 0" in body
    claim = paths.claim("custom_v1", Host(source.release, 2))
    assert isinstance(claim, Claim)
    includes_limit = "inp_size <= self.max_size" in body
    assert claim.max_bytes == (8 * MIB if includes_limit else 8 * MIB - 16)


def test_the_worlds_of_each_path_are_those_of_the_source(source: Source) -> None:
    for name, file, pattern in (
        ("custom_v1", "custom_all_reduce", r"_SUPPORTED_WORLD_SIZES = (\[.*?\])"),
        ("pcie_ipc", "pcie_ipc_ar", r"^_SUPPORTED_WORLD_SIZES = (\(.*?\))"),
        ("mscclpp", "pymscclpp", r"\b_SUPPORTED_WORLD_SIZES = ([\[(].*?[\])])"),
    ):
        if not source.has(name):
            continue
        found = re.search(pattern, source.communicator(file), re.M)
        assert found is not None, name
        for size in range(2, 65):
            host = Host(source.release, size, full_nvlink=True, path_limit_bytes=MIB)
            served = isinstance(paths.claim(name, host), Claim)
            assert served is (size in ast.literal_eval(found[1])), (name, size)


def test_torch_symmetric_memory_serves_the_architectures_and_sizes_of_its_table(source: Source) -> None:
    table = source.communicator("all_reduce_utils")
    sizes = ast.literal_eval(re.sub(r"(\d+) \* MiB", lambda m: str(int(m[1]) * MIB), table.split("= ", 2)[2]))
    for arch in range(8, 13):
        for size in range(2, 9):
            claim = paths.claim("torch_symm_mem", Host(source.release, size, arch_major=arch))
            limit = sizes.get(arch, {}).get(size)
            assert isinstance(claim, Claim) is (limit is not None)
            if isinstance(claim, Claim):
                assert claim.max_bytes == limit - 4
    body = _method(source.communicator("torch_symm_mem"), "TorchSymmMemCommunicator", "should_torch_symm_mem_allreduce")
    assert "return inp_size < self.max_size" in body


def test_refusals_are_texts_that_the_source_logs(source: Source) -> None:
    folder = source.folder / "srt" / "distributed"
    text = "\n".join(file.read_text() for file in sorted(folder.rglob("*.py")))
    joined = re.sub(r'"\s*\n\s*f?"', "", text)
    for path in PATHS.values():
        # The shm path is the lane's own; SGLang formats its refusal, with the plugin's name.
        if source.has(path.name) and path.refusals and path.name != "shm":
            found = [bool(re.search(pattern, joined)) for pattern in path.refusals]
            # Texts came over the releases; the newest knows them all.
            assert all(found) if source.release == max(one.release for one in SOURCES) else any(found), path


def test_the_launcher_sets_what_the_worker_is_given(source: Source) -> None:
    engine = source.text("entrypoints", "engine.py")
    for name in paths.server_environment(()):
        assert f'os.environ["{name}"]' in engine, name


def test_nccl_knows_every_variable_that_a_candidate_may_vary() -> None:
    libraries = [library for source in SOURCES for library in source.folder.parent.glob("nvidia/nccl/lib/libnccl.so*")]
    if not libraries:
        pytest.skip("no stack with an NCCL library")
    for library in libraries:
        content = library.read_bytes()
        for name in paths.NCCL_VARIABLES:
            assert name.encode() + b"\0" in content, name
        for kernel in (b"ncclDevKernel_AllReduce_Sum_bf16", b"ncclSymkDevKernel_AllReduce"):
            assert kernel in content


def _method(text: str, owner: str, name: str) -> str:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and node.name == owner:
            for member in node.body:
                if isinstance(member, ast.FunctionDef) and member.name == name:
                    return ast.unparse(member).replace("'", '"')
    raise AssertionError(f"{owner} has no {name}")
