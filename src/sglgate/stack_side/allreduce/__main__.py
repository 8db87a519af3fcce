"""Entry: ``python <folder>``; loads the package under a name of its own and runs the worker."""

import importlib
import importlib.util
import sys
from pathlib import Path


def _load_package(folder: Path, name: str) -> None:
    # Python put this folder first on sys.path; its module names must not shadow anything that torch imports.
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != folder]
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    _load_package(Path(__file__).resolve().parent, "sglgate_allreduce")
    sys.exit(importlib.import_module("sglgate_allreduce.worker").main(sys.argv[1:]))
