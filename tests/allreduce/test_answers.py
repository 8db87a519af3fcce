import threading
from pathlib import Path
from typing import Any

import pytest

from sglgate.allreduce.answers import collect, read_texts
from sglgate.errors import MisuseError

TEXTS = {"a": "first", "b": "second", "c": "third"}
SUITE_TEXTS = Path(__file__).parents[2] / "suites" / "allreduce" / "texts.toml"


class FakeClient:
    def __init__(self, together: int) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._meet = threading.Barrier(together, timeout=10)

    def flush_cache(self) -> None:
        self.calls.append(("flush", {}))

    def generate(self, prompt: str, **extra: Any) -> dict[str, Any]:
        self._meet.wait()
        self.calls.append((prompt, extra))
        meta = {"input_token_logprobs": [[None, 1, None], [-0.5, len(prompt), None]]}
        return {"output_ids": [len(prompt)], "meta_info": meta}


def test_alone_each_text_is_asked_once_after_the_cache_is_emptied() -> None:
    client = FakeClient(together=1)
    answers = collect(client, TEXTS, "batch 1", answer_tokens=4, deadline_s=9)
    assert [prompt for prompt, _ in client.calls] == ["flush", "first", "second", "third"]
    assert answers["c"].greedy == (5,)
    extra = client.calls[1][1]
    assert (extra["max_new_tokens"], extra["logprob_start_len"], extra["return_logprob"]) == (4, 0, True)


def test_under_load_every_text_is_in_flight_twice_at_the_same_time() -> None:
    client = FakeClient(together=2 * len(TEXTS))
    answers = collect(client, TEXTS, "under load", answer_tokens=4, deadline_s=9)
    assert set(answers) == set(TEXTS)
    assert sorted(prompt for prompt, _ in client.calls[1:]) == sorted(2 * list(TEXTS.values()))


def test_the_suites_texts_are_short_and_long_and_in_several_scripts() -> None:
    texts = read_texts(SUITE_TEXTS)
    lengths = sorted(len(text) for text in texts.values())
    assert lengths[0] < 40
    assert lengths[-1] > 1000
    assert "def merge" in texts["code"]
    scripts = {"latin": "e", "han": "雨", "arabic": "ر"}
    assert all(any(letter in text for text in texts.values()) for letter in scripts.values())


@pytest.mark.parametrize("content", ["", 'a = ""', "a = 1"])
def test_a_file_without_texts_is_misuse(content: str, tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(content)
    with pytest.raises(MisuseError, match="must hold texts only"):
        read_texts(tmp_path / "t.toml")
