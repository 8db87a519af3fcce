"""Faults planted in the real CPU stack, one at a time: does the sign-off find, size and attribute each?

    python benchmarks/planted.py --stack .stacks/cpu --out FOLDER [--only fraction --only answers]

A planted stack is the real one with the source of one module changed while it is imported; nothing on disk is. Each is
judged by the lane, as the unchanged stack is, and both runs are signed off. Prints the items of each sign-off. For the
delay the launches of both stacks take turns (``--against``), on a quiet machine; the others take 2 launches each.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from sglgate.signoff import build, read_side
from sglgate.signoff.render import markdown

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Plant:
    """``old`` becomes ``new`` in the source of ``module``; ``candidate`` shows it under the tests named ``tests``."""

    module: str
    old: str
    new: str
    candidate: str
    tests: str


SMOLLM2 = """name = "{name}"
reason = "the stack with a planted fault against the stack without"
model = "recipe:smollm2-135m-instruct"
"""
CANDIDATES = {
    "answers": SMOLLM2 + "[arguments]\nmax-total-tokens = 4096\n[expect.kv]\nfill = 0.5\n",
    # Neither the fraction nor the pool is asked for: the release's default alone decides.
    "fraction": SMOLLM2 + "[arguments]\nmem-fraction-static = false\n[expect.kv]\nfill = 0\n",
    "path": (ROOT / "fixtures/candidates/cpu/tiny-tp2-shm.toml")
    .read_text()
    .replace('"tiny-tp2-shm"', '"{name}"')
    .replace('extends = "tiny-tp2"', 'model = "recipe:tiny-llama-tp2"')
    .replace("[environment]", '[arguments]\ntp-size = 2\n[environment]\nSGLANG_CPU_OMP_THREADS_BIND = "0|1"')
    .replace("also_ranks = [4]\n", ""),
    "delay": (ROOT / "fixtures/candidates/cpu/smollm2-one-thread.toml")
    .read_text()
    .replace('"smollm2-one-thread"', '"{name}"')
    .replace('extends = "smollm2"', 'model = "recipe:smollm2-135m-instruct"')
    .replace("[environment]", "[arguments]\nmax-total-tokens = 4096\n[environment]"),
}
DEFAULT = "mem_fraction_static=mem_fraction_static,"
#: In both stacks: SGLang's own default would take nearly all of the machine's memory.
MODEST = ("sglang.srt.arg_groups.memory_hook", DEFAULT, "mem_fraction_static=0.1,")
PLANTS = {
    "answers": Plant(
        "sglang.srt.layers.layernorm",
        "self.variance_epsilon = eps",
        "self.variance_epsilon = eps * 1000",
        "answers",
        "fill",
    ),
    "fraction": Plant(MODEST[0], DEFAULT, "mem_fraction_static=0.09,", "fraction", "needed or predicted"),
    "path": Plant("sglgate_cpu_stack.shm", "limit = os.environ.get(LIMIT_VARIABLE)", "limit = None", "path", "engaged"),
    "delay": Plant(
        "sglang.srt.managers.scheduler",
        "    @scheduler_stage_method(SCHEDULER_STAGE_RUN_BATCH)\n    def run_batch(",
        "    def run_batch(self, *args, **kwargs):\n"
        "        began = time.perf_counter()\n"
        "        result = self._run_batch(*args, **kwargs)\n"
        "        time.sleep(0.05 * (time.perf_counter() - began))\n"
        "        return result\n\n"
        "    @scheduler_stage_method(SCHEDULER_STAGE_RUN_BATCH)\n    def _run_batch(",
        "delay",
        "as_declared or against_release",
    ),
}
SITE = """import importlib.machinery, importlib.util, sys
CHANGES = {changes!r}

class Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, name):
        return compile(self.get_data(self.path), self.path, "exec")

    def get_data(self, path):
        data = super().get_data(path)
        for old, new in CHANGES.get(self.name, ()):
            assert data.count(old.encode()) >= 1, (self.name, old)
            data = data.replace(old.encode(), new.encode())
        return data

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in CHANGES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        spec.loader = Loader(name, spec.origin)
        return spec

sys.meta_path.insert(0, Finder)
"""


def overlay(folder: Path, stack: Path, changes: list[tuple[str, str, str]]) -> Path:
    """An interpreter that is ``stack`` with these changes of source."""
    by_module: dict[str, list[tuple[str, str]]] = {}
    for module, old, new in changes:
        by_module.setdefault(module, []).append((old, new))
    (folder / "site").mkdir(parents=True, exist_ok=True)
    (folder / "site" / "sitecustomize.py").write_text(SITE.format(changes=by_module))
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder / "site"} exec {stack / "bin" / "python"} "$@"\n')
    python.chmod(0o755)
    return python


def judge(folder: Path, python: Path, plant: Plant, *options: str) -> Path:
    """One run of the lane; its folder."""
    (folder / "candidates").mkdir(parents=True, exist_ok=True)
    (folder / "candidates" / f"{plant.candidate}.toml").write_text(
        CANDIDATES[plant.candidate].replace("{name}", plant.candidate)
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "cpu", "-k", plant.tests, "-q"]
    paths = [f"--candidates={folder / 'candidates'}", f"--reports={folder / 'reports'}", f"--stack={python}"]
    environment = {**os.environ, "SGLGATE_STORE": str(folder / "history.sqlite")}
    subprocess.run([*command, *paths, "--wait-for-node=600", *options], cwd=ROOT, env=environment, check=False)
    return sorted((folder / "reports").glob("*-cpu-*"))[-1]


def main() -> None:
    """Plant, judge, sign off."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stack", type=Path, default=ROOT / ".stacks" / "cpu")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", action="append", choices=list(PLANTS), help="repeatable")
    options = parser.parse_args()
    stack, out = options.stack.absolute(), options.out.absolute()
    for name in options.only or PLANTS:
        plant, folder = PLANTS[name], out / name
        change = (plant.module, plant.old, plant.new)
        plain = overlay(folder / "plain", stack, [MODEST])
        planted = overlay(folder / "planted", stack, [change] if plant.old == DEFAULT else [MODEST, change])
        old = judge(folder / "old", plain, plant)
        new = judge(folder / "new", planted, plant, f"--against={plain}")
        text = markdown(build(read_side(old), read_side(new)))
        (folder / "signoff.md").write_text(text)
        print(f"\n=== planted: {name}\n{text}", flush=True)


if __name__ == "__main__":
    main()
