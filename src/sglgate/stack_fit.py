"""Does a stack have what the candidates ask for? Release, arguments and environment names, before anything starts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sglgate.config import Candidate
from sglgate.errors import MisuseError, nearest
from sglgate.stack import Stack, check_arguments, run_in_stack, write_atomically
from sglgate.venvs import cache_folder

#: Whose names can be looked for. A name of another program (HF_, OMP_, TORCH_) is left to that program.
_SEARCHED: Final = ("SGLANG_", "NCCL_", "FLASHINFER_")


def check_candidates(
    stack: Stack, candidates: Sequence[Candidate], environment: Mapping[str, str], named: Iterable[str] = ()
) -> tuple[list[Candidate], dict[str, str]]:
    """The candidates that this stack can launch, and name -> reason of those that are for other releases.

    Args:
        environment: the profile's, which every probe of the stack runs under.
        named: candidates that a person asked for by name; for them another release is a mistake.

    Raises:
        MisuseError: a candidate's arguments or environment names are unknown to the stack, or nothing is left.
    """
    left_out = {
        c.name: f"for SGLang {c.sglang}, this stack has {stack.sglang}" for c in candidates if not c.fits(stack.sglang)
    }
    for candidate in candidates:
        if candidate.name in left_out and (candidate.name in set(named) or len(left_out) == len(candidates)):
            raise MisuseError(
                f"is {left_out[candidate.name]}",
                file=candidate.file,
                key="sglang",
                expected="another --stack, or leave it out",
            )
    kept = [c for c in candidates if c.name not in left_out]
    check_arguments(stack, kept, environment)
    check_environment(stack, kept, environment)
    return kept, left_out


def check_environment(stack: Stack, candidates: Iterable[Candidate], environment: Mapping[str, str]) -> None:
    """Every name that a candidate sets must be read by something in the stack.

    Raises:
        MisuseError: nothing reads it, so that the candidate would be its own baseline under another name.
    """
    candidates = list(candidates)
    read_by = who_reads(stack, candidates, environment)
    for candidate in candidates:
        for name in candidate.environment:
            if name in read_by and read_by[name] is None:
                near = nearest(name, (known for known, file in read_by.items() if file))
                raise MisuseError(
                    f"nothing in SGLang {stack.sglang} and its libraries reads it",
                    file=candidate.file,
                    key=f"environment.{name}",
                    expected=f"did you mean {near!r}?" if near else "another name, or a range of releases in `sglang`",
                )


def who_reads(stack: Stack, candidates: Iterable[Candidate], environment: Mapping[str, str]) -> dict[str, str | None]:
    """Of each name that the candidates set and that can be looked for: the file that holds it, None where none does."""
    names = sorted({name for c in candidates for name in c.environment if name.startswith(_SEARCHED)})
    if not names:
        return {}
    key = hashlib.sha256(json.dumps([stack.digest, stack.parser, names]).encode()).hexdigest()[:16]
    file = cache_folder() / "environment" / f"{key}.json"
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        text = run_in_stack(stack.python, "environment_names.py", json.dumps(names), environment)
    write_atomically(file, text)
    return dict(json.loads(text))
