"""Asks a live server what it says: every text once, alone or all together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from sglgate.allreduce.drift import Answers, Said
from sglgate.config.toml_files import read_toml
from sglgate.errors import MisuseError

LOADS = ("batch 1", "under load")
_TOP = 5


class _Client(Protocol):
    def generate(self, prompt: str, *, max_new_tokens: int, deadline_s: float, **extra: Any) -> dict[str, Any]: ...

    def flush_cache(self) -> None: ...


def read_texts(file: Path) -> dict[str, str]:
    """``name = "text"`` pairs of a TOML file.

    Raises:
        MisuseError: empty, or a value that is not a text.
    """
    texts = read_toml(file)
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts.values()):
        raise MisuseError("must hold texts only", file=file, expected='name = "text", at least one')
    return texts


def collect(client: _Client, texts: Mapping[str, str], load: str, *, answer_tokens: int, deadline_s: float) -> Answers:
    """Teacher-forced logprobs and a greedy answer for every text.

    Args:
        load: ``batch 1`` asks one after the other; ``under load`` all at once and twice over, so that they share
            batches of changing shape.
    """

    def ask(name: str) -> Said:
        answer = client.generate(
            texts[name],
            max_new_tokens=answer_tokens,
            deadline_s=deadline_s,
            ignore_eos=True,
            return_logprob=True,
            logprob_start_len=0,
            top_logprobs_num=_TOP,
        )
        return Said.read(answer)

    # A cached prefix has no logprobs, and another batch shape than a computed one.
    client.flush_cache()
    return _SCHEDULES[load](list(texts), ask)


def _one_by_one(names: list[str], ask: Callable[[str], Said]) -> Answers:
    return {name: ask(name) for name in names}


def _all_at_once(names: list[str], ask: Callable[[str], Said]) -> Answers:
    with ThreadPoolExecutor(max_workers=2 * len(names)) as pool:
        first = {name: pool.submit(ask, name) for name in names}
        second = [pool.submit(ask, name) for name in names]
        for other in second:
            other.result()
        return {name: one.result() for name, one in first.items()}


_SCHEDULES: Mapping[str, Callable[[list[str], Callable[[str], Said]], Answers]] = dict(
    zip(LOADS, (_one_by_one, _all_at_once), strict=True)
)
