"""Secrets out of any text that reaches evidence, JUnit or HTML.

What is removed: values of variables and options that are named like a secret, ``Authorization`` and similar headers, known
token shapes (Hugging Face, OpenAI, GitHub, AWS, Slack, JWT), and user names and passwords in URLs.
"""

# A pattern that is broken over lines cannot be searched for.
# ruff: noqa: E501
from __future__ import annotations

import re
from typing import Any, Final

HIDDEN: Final = "***"

_NAME: Final = (
    r"(?:[A-Za-z0-9_]*(?:_TOKEN|_KEY|_SECRET|_PASSWORD|_PASSWD|_CREDENTIALS?)|"
    r"(?:[A-Za-z0-9]+[_-])*(?:api[_-]?key|admin[_-]api[_-]key|access[_-]?key(?:[_-]id)?|secret[_-]?(?:access[_-]?)?key|private[_-]?key|"
    r"auth[_-]?token|access[_-]?token|refresh[_-]?token|bearer[_-]?token|hf[_-]?token|hub[_-]?token|token|secret|passwd|password|credentials?)|"
    r"ssl[_-]keyfile[_-]password)"
)
# `max_total_num_tokens=4096` and `bos_token='<s>'` are no secrets: the name must end here, and these values are kept.
_HARMLESS_NAME: Final = re.compile(
    r"(?i)^(?:bos|eos|pad|unk|sep|cls|mask|image|video|audio|stop|think|new|cached|next|hot|draft|special|per|accept)[_-]?\w*token$|"
    r"^(?:sort|primary|foreign|cache|dict|lora|public|mem|layer)[_-]?key$|^keyerror$"
)
_HARMLESS_VALUE: Final = re.compile(r"^(?:None|null|True|False|true|false|\d+(?:\.\d+)?|<[^>]*>|)$")

_ASSIGNED: Final = re.compile(
    r"(?P<head>(?<![\w-])(?:--)?(?P<name>" + _NAME + r")(?P<close>['\"]?)\s*(?:=|:)\s*)"
    r"(?P<value>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\s,;&)}\]'\"]+)",
    re.IGNORECASE,
)
_OPTION: Final = re.compile(
    r"(?P<head>(?<!\S)--(?P<name>" + _NAME + r")\s+)(?P<value>'[^']*'|\"[^\"]*\"|(?!-)\S+)", re.IGNORECASE
)
_HEADER: Final = re.compile(
    r"(?P<head>\b(?:proxy-)?authorization\b['\"]?\s*[:=]\s*['\"]?(?:(?:bearer|basic|token|digest)\s+)?)(?P<value>[^\s'\",;]+)",
    re.IGNORECASE,
)
_BEARER: Final = re.compile(r"(?P<head>\b(?:bearer|basic)\s+)(?P<value>[A-Za-z0-9._~+/=-]{8,})", re.IGNORECASE)
_COOKIE: Final = re.compile(r"(?P<head>\b(?:set-)?cookie['\"]?\s*:\s*)(?P<value>[^\r\n]+)", re.IGNORECASE)
_URL_USER: Final = re.compile(r"(?P<head>\b[a-z][a-z0-9+.-]{1,20}://)(?P<value>[^\s/@'\"]{1,256})@", re.IGNORECASE)
_SHAPES: Final = re.compile(
    r"\bhf_[A-Za-z0-9]{16,}\b|\bsk-[A-Za-z0-9_-]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}\b|\bgithub_pat_[A-Za-z0-9_]{20,}\b|"
    r"\bglpat-[A-Za-z0-9_-]{16,}|\bAKIA[A-Z0-9]{12,}\b|\bxox[abprs]-[A-Za-z0-9-]{10,}|\bnvapi-[A-Za-z0-9_-]{16,}|\bms-[0-9a-f]{8}-[0-9a-f-]{20,}\b|"
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
)
_PRIVATE: Final = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)


def redact(text: str) -> str:
    """``text`` with every secret replaced by ``***``; applying it twice changes nothing more, and no line is lost."""
    text = _PRIVATE.sub(lambda m: _hidden(m[0]), text)
    text = _URL_USER.sub(lambda m: f"{m['head']}{HIDDEN}@", text)
    for pattern in (_HEADER, _COOKIE, _BEARER):
        text = pattern.sub(lambda m: m["head"] + HIDDEN, text)
    for pattern in (_ASSIGNED, _OPTION):
        text = pattern.sub(_hide_value, text)
    return _SHAPES.sub(HIDDEN, text)


def _hide_value(match: re.Match[str]) -> str:
    value = match["value"].strip("'\"")
    if value == HIDDEN or _HARMLESS_NAME.match(match["name"].lstrip("-")) or _HARMLESS_VALUE.match(value):
        return match[0]
    return match["head"] + _hidden(match["value"])


def _hidden(value: str) -> str:
    """A secret over several lines leaves them empty: line numbers stay what they are."""
    return HIDDEN + "\n" * value.count("\n")


def redact_data(value: Any, name: str = "") -> Any:
    """JSON data with every secret replaced, the shape unchanged; ``name`` is the key that ``value`` stands under.

    Redacting JSON *text* could eat its quotes.
    """
    if isinstance(value, dict):
        return {redact(str(key)): redact_data(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact_data(item, name) for item in value]
    if not isinstance(value, str):
        return value
    # repr: a value with spaces must count as one value.
    return HIDDEN if redact(f"{name}={value!r}") == f"{name}={HIDDEN}" else redact(value)
