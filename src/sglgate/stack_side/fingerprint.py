"""Print what this interpreter is made of, as JSON. Imports nothing heavy: versions are read, not loaded."""

import importlib.metadata
import importlib.util
import json
import platform
import re
import sys
from pathlib import Path


def torch_build() -> dict[str, str]:
    """The CUDA version and commit that torch was built with, from its generated ``version.py``."""
    try:
        # locate_file: importing torch takes seconds and may fail without a driver.
        path = Path(str(importlib.metadata.distribution("torch").locate_file("torch/version.py")))
        text = path.read_text(encoding="utf-8")
    except (importlib.metadata.PackageNotFoundError, OSError):
        return {}
    return dict(re.findall(r"^(cuda|hip|git_version)\b[^=]*=\s*'([^']*)'", text, re.MULTILINE))


def parser_file() -> str:
    """Size and time of SGLang's argument parser, found without importing sglang."""
    try:
        spec = importlib.util.find_spec("sglang")
        assert spec is not None
        assert spec.origin is not None
        info = (Path(spec.origin).parent / "srt" / "server_args.py").stat()
    except (AssertionError, OSError, ValueError):
        return ""
    return f"{info.st_size}-{info.st_mtime_ns}"


def main() -> None:
    """One JSON object on stdout."""
    packages = {d.metadata["Name"].lower(): d.version for d in importlib.metadata.distributions() if d.metadata["Name"]}
    json.dump(
        {
            "python": platform.python_version(),
            "executable": sys.executable,
            "libc": " ".join(platform.libc_ver()),
            "torch_build": torch_build(),
            "parser": parser_file(),
            "packages": dict(sorted(packages.items())),
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
