"""The resolved server arguments from the line in which the server prints them."""

from __future__ import annotations

import ast
import re
import warnings
from typing import Any

_ENUM = re.compile(r"<[\w.]+: ('(?:[^'\\]|\\.)*'|-?\d+)>")
_OBJECT = re.compile(r"<[^<>]{0,200}>")


def parse_server_args(value: str) -> dict[str, Any] | None:
    """``ServerArgs(...)`` (up to 0.5.18) or ``{...}`` (from 0.5.20) as a dict; None where it cannot be read.

    Enumerations become their value, nested dataclasses a dict, any other object its text: a server argument
    that cannot be read must not hide the others.
    """
    text = _OBJECT.sub(lambda m: repr(m[0]), _ENUM.sub(r"\1", value.strip()))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a server argument may hold what Python calls a bad escape
            node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    try:
        result = _value(node)
    except RecursionError:
        return None
    return result if isinstance(result, dict) else None


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Call):
        return {word.arg: _value(word.value) for word in node.keywords if word.arg is not None}
    if isinstance(node, ast.Dict):
        return {
            key.value if isinstance(key, ast.Constant) else ast.unparse(key): _value(value)
            for key, value in zip(node.keys, node.values, strict=True)
            if key is not None
        }
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(item) for item in node.elts]
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)
