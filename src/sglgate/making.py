"""A stack made from requirements: a venv in the cache, named by its content, with a link in ``.stacks``.

Standard library only, as ci/quickstart needs it.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

from sglgate.venvs import SetupError, cache_folder, content_key, ensure_venv, run_logged

NEEDED_GB = 13


@dataclass(frozen=True)
class StackRecipe:
    """What a stack is made of.

    Attributes:
        name: of the link in ``.stacks``.
        requirements: as pip takes them, such as ``sglang==0.5.9``; the path of a file of them where it ends in .txt.
        constraints: a file of exact versions, or None: then a later call may find newer packages.
        cpu: beside it the package that lets the wheel serve without a GPU (``fixtures/cpu_stack``).
        extras: packages that are installed without their own needs.
    """

    name: str
    requirements: tuple[str, ...]
    constraints: Path | None
    cpu: bool
    extras: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Where it lives: other content is another folder, so that a change never spoils a stack in use."""
        names = " ".join((*self.requirements, *self.extras))
        files = [Path(one).read_bytes() for one in self.requirements if _is_file(one)]
        pinned = self.constraints.read_bytes() if self.constraints else b""
        return (
            cache_folder() / "stacks" / f"{self.name}-{content_key(pinned, names, platform.python_version(), *files)}"
        )

    @property
    def is_made(self) -> bool:
        """Whether it was finished once; it may still be damaged."""
        return (self.folder / "sglgate.json").exists()


def ensure_stack(recipe: StackRecipe, root: Path) -> Path:
    """The interpreter of the stack, made, finished or repaired if need be, at ``.stacks/NAME`` of ``root``.

    Raises:
        SetupError: pip failed, or something else is in the place of the link.
    """
    folder, link = recipe.folder, root / ".stacks" / recipe.name
    ours = root / "fixtures" / "cpu_stack"

    def install(python: str) -> None:
        pinned = ["-c", str(recipe.constraints)] if recipe.constraints else []
        pip, logs = [python, "-m", "pip", "install", *pinned], cache_folder() / "logs"
        wanted = [part for one in recipe.requirements for part in (("-r", one) if _is_file(one) else (one,))]
        run_logged([*pip, *wanted], logs / "stack.log", "stack: sglang and its needs")
        extras = [*([str(ours)] if recipe.cpu else []), *recipe.extras]
        if extras:
            argv = [*pip, "--no-deps", "--force-reinstall", *extras]
            run_logged(argv, logs / "stack-cpu.log", "stack: what goes beside it")

    key = f"{folder.name} {cpu_package_key(ours)}" if recipe.cpu else folder.name
    ensure_venv(folder, key, f"stack (.stacks/{recipe.name})", install)
    link.parent.mkdir(exist_ok=True)
    if not link.is_symlink() and link.exists():
        raise SetupError(f"{link} is none of ours: move it away, or take another name")
    if not link.is_symlink() or link.resolve() != folder.resolve():
        link.unlink(missing_ok=True)
        link.symlink_to(folder)
    return link / "bin" / "python"


def cpu_package_key(package: Path) -> str:
    """Changes with any file of the CPU package, which alone is then installed anew."""
    files = sorted(p for p in package.rglob("*") if p.suffix in {".py", ".toml", ".pth"})
    return content_key(*(path.read_bytes() for path in files))


def _is_file(requirement: str) -> bool:
    return requirement.endswith(".txt")
