"""Prompt sets are what their digest says, or refused with file, line and what would be right."""

import hashlib
import json
from pathlib import Path

import pytest

from sglgate.errors import MisuseError
from sglgate.load import load_prompts, prompt_kinds

SHIPPED = Path(__file__).parents[2] / "fixtures" / "prompts"


def line(number=0, kind="chat", text=None):
    return json.dumps({"id": f"{kind}-{number}", "kind": kind, "text": text or f"text {number}"})


@pytest.fixture
def folder(tmp_path):
    def write(content: str | bytes, *, digest: str | None = None) -> Path:
        data = content.encode() if isinstance(content, str) else content
        (tmp_path / "chat.jsonl").write_bytes(data)
        digest = hashlib.sha256(data).hexdigest() if digest is None else digest
        (tmp_path / "SHA256SUMS").write_text(f"{digest}  chat.jsonl\n")
        return tmp_path

    return write


@pytest.mark.parametrize("kind", ["chat", "code", "json", "long_context", "low_entropy", "high_entropy"])
def test_each_kind_is_shipped_with_enough_prompts_for_eight_users(kind):
    prompts = load_prompts(SHIPPED, kind)
    assert len(prompts) >= 8
    assert {prompt.kind for prompt in prompts.prompts} == {kind}
    assert prompts.at(len(prompts)) == prompts.at(0)


def test_every_shipped_file_is_a_kind():
    assert len(prompt_kinds(SHIPPED)) == 6


def test_long_contexts_differ_from_their_first_paragraph_on():
    texts = [prompt.text.split("\n\n")[1] for prompt in load_prompts(SHIPPED, "long_context").prompts]
    assert len(set(texts)) >= len(texts) - 1


def test_line_separators_inside_a_text_are_text(folder):
    text = "one\u2028two"
    content = json.dumps({"id": "a", "kind": "chat", "text": text}, ensure_ascii=False)
    assert load_prompts(folder(content), "chat").prompts[0].text == text


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "holds no prompt"),
        ("{", "line 1: no JSON"),
        (line() + "\n\n" + line(1), "line 2: no JSON"),
        (b"\xff\xfe", "no UTF-8"),
        ('["a"]', "line 1: not a prompt"),
        ('{"id": "a", "kind": "chat", "prompt": "b"}', "keys id, kind, text"),
        ('{"id": "a", "kind": "chat", "text": " "}', "line 1: text: must be a text"),
        ('{"id": 3, "kind": "chat", "text": "b"}', "line 1: id: must be a text"),
        (line(kind="code"), "of another kind"),
        (line() + "\n" + line(0, text="other"), "line 2: id used twice"),
        (line() + "\n" + line(1, text="text 0"), "line 2: text used twice"),
    ],
)
def test_a_bad_file_is_misuse_that_names_the_place(folder, content, says):
    with pytest.raises(MisuseError, match=says):
        load_prompts(folder(content), "chat")


def test_a_changed_file_is_refused(folder):
    with pytest.raises(MisuseError, match="differs from its digest"):
        load_prompts(folder(line(), digest="0" * 64), "chat")


def test_a_file_without_a_digest_is_refused(folder):
    path = folder(line())
    (path / "SHA256SUMS").write_text("")
    with pytest.raises(MisuseError, match="has no digest"):
        load_prompts(path, "chat")


def test_sums_that_are_missing_or_malformed_are_refused(folder):
    path = folder(line())
    (path / "SHA256SUMS").write_text("chat.jsonl\n")
    with pytest.raises(MisuseError, match="no line of sha256sum"):
        load_prompts(path, "chat")
    (path / "SHA256SUMS").unlink()
    with pytest.raises(MisuseError, match="SHA256SUMS: missing"):
        load_prompts(path, "chat")


def test_an_unknown_kind_names_the_nearest(folder):
    with pytest.raises(MisuseError, match="did you mean 'chat'"):
        load_prompts(folder(line()), "chatt")
