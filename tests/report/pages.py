"""A record with defaults, and a page taken apart."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from sglgate.evidence import Evidence
from sglgate.run import now


def evidence(**fields: Any) -> Evidence:
    defaults: dict[str, Any] = {
        "at": now(), "run": "r", "profile": "cpu", "candidate": "c", "suite": "kv", "gate": "g", "test": "t",
        "verdict": "PASS", "reason": "", "metric": "m", "value": 1, "bound": 1, "direction": "equal", "unit": "",
    }  # fmt: skip
    return Evidence.model_validate(defaults | fields)


class Page(HTMLParser):
    """The tags of a page with their attributes, in order, and the text within each kind of tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: dict[str, list[str]] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.text.setdefault(tag, []).append(data)

    def all(self, *names: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag in names]
