"""Fixed prompt sets: read, checked against their digests, or refused."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from sglgate.errors import MisuseError, nearest

SUMS_FILE = "SHA256SUMS"


@dataclass(frozen=True)
class Prompt:
    """One prompt; ``kind`` groups prompts whose acceptance behaves alike."""

    id: str
    kind: str
    text: str


@dataclass(frozen=True)
class PromptSet:
    """Prompts of one file in their fixed order; ``digest`` is the file's SHA-256 and names what was
    measured."""

    name: str
    digest: str
    prompts: tuple[Prompt, ...]

    def __len__(self) -> int:
        return len(self.prompts)

    def at(self, index: int) -> Prompt:
        """The prompt for the request of that number; starts again at the end."""
        return self.prompts[index % len(self.prompts)]

    @classmethod
    def of_texts(cls, name: str, texts: tuple[str, ...]) -> PromptSet:
        """A set made in memory, for tests and one-off calls."""
        digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()
        return cls(name, digest, tuple(Prompt(f"{name}-{i}", name, text) for i, text in enumerate(texts)))


def prompt_kinds(folder: Path) -> tuple[str, ...]:
    """Names of the sets in ``folder`` (the stems of its ``.jsonl`` files), sorted."""
    return tuple(sorted(path.stem for path in folder.glob("*.jsonl")))


def load_prompts(folder: Path, kind: str) -> PromptSet:
    """Read ``<folder>/<kind>.jsonl`` and check it against ``<folder>/SHA256SUMS``.

    Each line is an object with exactly ``id``, ``kind`` and ``text``.

    Raises:
        MisuseError: no such set, a digest that is missing or differs, or a bad line.
    """
    path = folder / f"{kind}.jsonl"
    if not path.is_file():
        kinds = prompt_kinds(folder)
        near = nearest(kind, kinds)
        expected = f"did you mean {near!r}?" if near else f"there are: {', '.join(kinds) or 'none'}"
        raise MisuseError("no such prompt set", file=folder, value=kind, expected=expected)
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    stated = _stated_digests(folder / SUMS_FILE).get(path.name)
    if stated != digest:
        problem = "has no digest" if stated is None else "differs from its digest"
        raise MisuseError(
            f"{problem} in {SUMS_FILE}: figures from changed prompts do not compare",
            file=path,
            value=digest,
            expected=f"restore the file, or run sha256sum *.jsonl > {SUMS_FILE} if the change is meant",
        )
    prompts = tuple(_prompt(path, number, line) for number, line in enumerate(_lines(path, content), start=1))
    _check_set(path, kind, prompts)
    return PromptSet(kind, digest, prompts)


def _stated_digests(path: Path) -> dict[str, str]:
    if not path.is_file():
        raise MisuseError("missing", file=path, expected=f"run sha256sum *.jsonl > {SUMS_FILE}")
    digests = {}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        digest, _, name = line.partition("  ")
        if len(digest) != 64 or not name:
            raise MisuseError("no line of sha256sum", file=path, key=f"line {number}", value=line)
        digests[name] = digest
    return digests


def _lines(path: Path, content: bytes) -> list[str]:
    try:
        # Not splitlines(): JSON strings may hold U+2028 and its like as they are.
        return content.decode().removesuffix("\n").split("\n") if content else []
    except UnicodeDecodeError as error:
        raise MisuseError(f"no UTF-8: {error}", file=path) from None


def _prompt(path: Path, number: int, line: str) -> Prompt:
    where = f"line {number}"
    try:
        value = json.loads(line)
    except ValueError as error:
        raise MisuseError(f"no JSON: {error}", file=path, key=where) from None
    if not isinstance(value, dict) or set(value) != {"id", "kind", "text"}:
        got = sorted(value) if isinstance(value, dict) else value
        raise MisuseError("not a prompt", file=path, key=where, value=got, expected="keys id, kind, text")
    for key, part in value.items():
        if not isinstance(part, str) or not part.strip():
            raise MisuseError("must be a text that is not empty", file=path, key=f"{where}: {key}", value=part)
    return Prompt(**value)


def _check_set(path: Path, kind: str, prompts: tuple[Prompt, ...]) -> None:
    if not prompts:
        raise MisuseError("holds no prompt", file=path)
    seen_ids: set[str] = set()
    seen_texts: set[str] = set()
    for number, prompt in enumerate(prompts, start=1):
        where = f"line {number}"
        if prompt.kind != kind:
            raise MisuseError("of another kind", file=path, key=where, value=prompt.kind, expected=f"kind {kind!r}")
        if prompt.id in seen_ids:
            raise MisuseError("id used twice", file=path, key=where, value=prompt.id)
        if prompt.text in seen_texts:
            # The second would be served from the prefix cache.
            raise MisuseError("text used twice", file=path, key=where, value=prompt.text[:60])
        seen_ids.add(prompt.id)
        seen_texts.add(prompt.text)
