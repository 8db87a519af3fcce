"""On a server's PYTHONPATH: prints the free-memory readings that SGLang sizes its pool with, unrounded.

SGLang logs readings with two decimals, and the one that sizes the pool not at all. This wraps the function
that takes them, where its answer is used, so that a log also holds what the formula was really given:

    kv reading: pre=94.00390625 GiB
    kv reading: avail=21.7099609375 GiB

The modules: ``distributed/bootstrap.py`` (0.5.18 on) and ``model_executor/model_runner.py`` (before) read
``pre``; ``mem_cache/kv_cache_configurator.py`` (0.5.16 on),
``model_executor/model_runner_kv_cache_mixin.py`` (0.5.7 on) and ``model_executor/model_runner.py`` itself
(before) read ``avail``. Both readings are the minimum over the ranks.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import itertools
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

_READERS = {
    "sglang.srt.distributed.bootstrap": "pre",
    "sglang.srt.model_executor.model_runner": "pre",
    "sglang.srt.model_executor.model_runner_kv_cache_mixin": "avail",
    "sglang.srt.mem_cache.kv_cache_configurator": "avail",
}


class _Finder(importlib.abc.MetaPathFinder):
    """Lets the others find a module of :data:`_READERS` and wraps its loader."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Only the readers' modules are touched."""
        if name not in _READERS:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader, _READERS[name])
                return spec
        return None


class _Loader(importlib.abc.Loader):
    """Runs the module and then wraps its ``get_available_gpu_memory``."""

    def __init__(self, inner: Any, word: str) -> None:
        self._inner, self._word = inner, word

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """As the inner loader does."""
        module: ModuleType | None = self._inner.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Run, then wrap."""
        self._inner.exec_module(module)
        read = getattr(module, "get_available_gpu_memory", None)
        if read is None:
            return
        words = _words(module, self._word)

        def reading(*args: Any, **kwargs: Any) -> Any:
            value = read(*args, **kwargs)
            if "distributed" in kwargs:  # the readings that count take the minimum over ranks; others are only printed
                print(f"kv reading: {next(words)}={value!r} GiB", flush=True)
            return value

        module.get_available_gpu_memory = reading  # type: ignore[attr-defined]


def _words(module: ModuleType, word: str) -> Iterator[str]:
    # Up to 0.5.6 one module takes both, in turn.
    runner = getattr(module, "ModelRunner", None)
    both = runner is not None and "profile_max_num_token" in vars(runner)
    return itertools.cycle(("pre", "avail")) if both else itertools.repeat(word)


sys.meta_path.insert(0, _Finder())
