"""The finder must never put torch ops before a real sgl_kernel."""

import ctypes
import importlib.util
import sys
from pathlib import Path

import pytest

FINDER = Path(__file__).parents[2] / "fixtures/cpu_stack/src/sglgate_cpu_stack/finder.py"


@pytest.fixture
def finder(monkeypatch):
    """The module, made to see a machine without any sign of a GPU."""
    spec = importlib.util.spec_from_file_location("finder_under_test", FINDER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "_DRIVER_FILES", ())

    def no_library(name):
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", no_library)
    return module


def test_without_a_gpu_sgl_kernel_is_the_torch_package(finder):
    spec = finder.KernelFinder().find_spec("sgl_kernel", None)
    assert Path(spec.origin) == FINDER.with_name("kernel") / "__init__.py"
    assert spec.submodule_search_locations == [str(FINDER.with_name("kernel"))]


@pytest.mark.parametrize("name", ["sgl_kernel.kvcacheio", "sgl_kernel_npu", "torch"])
def test_other_names_are_left_to_the_usual_finders(finder, name):
    assert finder.KernelFinder().find_spec(name, None) is None


def test_a_driver_file_makes_it_refuse_by_name(finder, monkeypatch, tmp_path):
    device = tmp_path / "nvidia0"
    device.touch()
    monkeypatch.setattr(finder, "_DRIVER_FILES", (str(device),))
    with pytest.raises(finder.GpuPresentError, match=r"will not replace sgl_kernel here: .*nvidia0") as caught:
        finder.KernelFinder().find_spec("sgl_kernel", None)
    assert isinstance(caught.value, RuntimeError)
    assert "SGLANG_USE_CPU_ENGINE" in str(caught.value)


def test_a_driver_library_that_loads_makes_it_refuse(finder, monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    with pytest.raises(finder.GpuPresentError, match=r"libcuda\.so\.1"):
        finder.KernelFinder().find_spec("sgl_kernel", None)


def test_other_imports_work_beside_a_gpu(finder, monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert finder.KernelFinder().find_spec("json", None) is None


def test_arming_twice_adds_one_finder_before_all_others(finder, monkeypatch):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    before = len(sys.meta_path)
    finder.arm()
    finder.arm()
    assert len(sys.meta_path) == before + 1
    assert isinstance(sys.meta_path[0], finder.KernelFinder)


def test_the_pth_line_does_nothing_without_the_switch(monkeypatch):
    line = (FINDER.parents[2] / "sglgate_cpu_stack.pth").read_text()
    monkeypatch.delenv("SGLANG_USE_CPU_ENGINE", raising=False)
    before = list(sys.meta_path)
    exec(line)
    assert sys.meta_path == before
