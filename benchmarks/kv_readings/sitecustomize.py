"""Put on a server's PYTHONPATH: prints the free-memory readings that SGLang sizes its pool with, unrounded.

SGLang logs two of its readings with two decimals and the one that sizes the pool not at all. This wraps the function that takes
them, in the two modules that use its answer (0.5.23), so that a launch's log also holds what the formula was really given.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

_READERS = {"sglang.srt.distributed.bootstrap": "pre", "sglang.srt.mem_cache.kv_cache_configurator": "avail"}


class _Finder(importlib.abc.MetaPathFinder):
    """Lets the others find a module of :data:`_READERS` and wraps its loader."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Only the readers' modules are touched."""
        if name not in _READERS:
            return None
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(name, path, target)) is not None and spec.loader:
                spec.loader = _Loader(spec.loader, _READERS[name])
                return spec
        return None


class _Loader(importlib.abc.Loader):
    """Runs the module and then wraps its ``get_available_gpu_memory``."""

    def __init__(self, inner: Any, word: str) -> None:
        self._inner, self._word = inner, word

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """As the inner loader does."""
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run, then wrap."""
        self._inner.exec_module(module)
        read = module.get_available_gpu_memory

        def reading(*args: Any, **kwargs: Any) -> float:
            value = read(*args, **kwargs)
            if "distributed" in kwargs:  # the reading that counts; the others are only printed
                print(f"kv reading: {self._word}={value!r} GiB", flush=True)
            return value

        module.get_available_gpu_memory = reading


sys.meta_path.insert(0, _Finder())
