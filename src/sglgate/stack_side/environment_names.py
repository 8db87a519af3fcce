"""Which environment names does anything in this stack read? A misspelt one changes nothing, and nobody says so.

stdin: a JSON list of names. stdout: {name: the file that holds it, or null}; a name of NCCL's is left out where no NCCL
library is found. Nothing of the stack is imported.
"""

import importlib.util
import json
import mmap
import sys
from collections.abc import Iterator
from pathlib import Path

_PACKAGES = ("sglang", "sgl_kernel", "flashinfer")


def _folders(package: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    return [Path(folder) for folder in (spec.submodule_search_locations or [])] if spec else []


def _files(suffixes: tuple[str, ...]) -> Iterator[Path]:
    for package in _PACKAGES:
        for folder in _folders(package):
            yield from sorted(path for path in folder.rglob("*") if path.suffix in suffixes and path.is_file())


def _nccl() -> list[Path]:
    return [library for folder in _folders("nvidia") for library in sorted(folder.glob("*/lib/libnccl.so*"))]


def _search(names: set[str], files: Iterator[Path]) -> dict[str, str]:
    """The first file that holds each name as a whole word."""
    found: dict[str, str] = {}
    for path in files:
        missing = names - found.keys()
        if not missing:
            break
        if path.stat().st_size == 0:
            continue
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            for name in missing:
                at = content.find(name.encode())
                while at >= 0:
                    around = content[max(0, at - 1) : at] + content[at + len(name) : at + len(name) + 1]
                    if not any(chr(byte).isalnum() or byte == 0x5F for byte in around):
                        found[name] = f"{path.parent.name}/{path.name}"
                        break
                    at = content.find(name.encode(), at + 1)
    return found


def main() -> None:
    """Answer one request."""
    names = set(json.load(sys.stdin))
    of_nccl = {name for name in names if name.startswith("NCCL_")}
    libraries = _nccl()
    # Sources first: compiled files are larger by far.
    found = _search(names, iter([*_files((".py",)), *libraries, *_files((".so", ".cuh", ".cu", ".h"))]))
    asked = names if libraries else names - of_nccl
    json.dump({name: found.get(name) for name in sorted(asked)}, sys.stdout)


if __name__ == "__main__":
    main()
