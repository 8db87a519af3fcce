"""Ask real SGLang stacks about every Blackwell candidate, and keep the answers beside this file.

    python -m tests.candidates.record STACK...      STACK: an interpreter with sglang, or its environment's folder

No GPU is needed: the stack's own argument parser is asked, and its files are searched for environment names.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

from sglgate.config import Candidate, Profile, load_candidates, load_profiles
from sglgate.errors import MisuseError
from sglgate.stack import Stack, check_arguments, find_stack, read_stack
from sglgate.stack_fit import who_reads

ROOT = Path(__file__).parents[2]
ANSWERS = Path(__file__).parent / "answers"


def campaign() -> tuple[Profile, list[Candidate]]:
    """The profile of the eight-GPU node, and all its candidates."""
    profile = load_profiles(ROOT / "fixtures" / "profiles")["blackwell"]
    return profile, load_candidates(ROOT / "fixtures" / "candidates" / "blackwell", profile)


def ask(stack: Stack) -> dict[str, Any]:
    """For each candidate: what it launches, whether it claims this release, and what the stack says of it."""
    profile, candidates = campaign()
    answers = {}
    # All at once: each question of its own would import sglang anew. The answers are kept.
    with contextlib.suppress(MisuseError):
        check_arguments(stack, candidates, profile.environment)
    read_by = who_reads(stack, candidates, profile.environment)
    for candidate in candidates:
        problem = None
        try:
            check_arguments(stack, [candidate], profile.environment)
        except MisuseError as error:
            problem = f"{error.key}: {error.problem}"
        unread = [name for name in candidate.environment if read_by.get(name, "") is None]
        if problem is None and unread:
            problem = f"environment.{unread[0]}: nothing reads it"
        answers[candidate.name] = {
            "configuration": candidate.configuration,
            "claims": candidate.fits(stack.sglang),
            "problem": problem,
        }
    return {"sglang": stack.sglang, "kernels": kernels(stack), "candidates": answers}


def kernels(stack: Stack) -> str:
    """The package with the compiled kernels, and its version."""
    name = next(name for name in ("sglang-kernel", "sgl-kernel") if name in stack.packages)
    return f"{name} {stack.packages[name]}"


def main() -> None:
    """Ask each stack that was named."""
    for named in sys.argv[1:]:
        stack = read_stack(find_stack(named, ROOT))
        path = ANSWERS / f"{stack.sglang}.json"
        path.write_text(json.dumps(ask(stack), indent=1) + "\n", encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
