"""Redaction of secrets in events: passwords in URLs, keys and tokens in code."""

from __future__ import annotations

import functools
import re

_SENSITIVE_NAMES = (
    r"(?:password|passwd|passphrase|pwd|(?<![a-z])pw(?![a-z])|secret|token|authorization|credentials?"
    r"|(?:api|access|account|private|encryption)_?key)"
)
_LITERAL = r"(?:\"{3}|'{3}|['\"])"

_PATTERNS = (
    # scheme://user:password@host
    (re.compile(r"(?P<keep>[a-zA-Z][a-zA-Z0-9+.-]*://(?:\{[^{}]*\}|[^\s:/@'\"])*:)[^\s@'\"]+(?=@)"), r"\g<keep>***"),
    # https://host/path?token=...
    (
        re.compile(
            rf"(?P<keep>[?&](?:sig|signature|[\w-]*{_SENSITIVE_NAMES}[\w-]*|X-Amz-\w+)=)[^&\s'\"]+", re.IGNORECASE
        ),
        r"\g<keep>***",
    ),
    # password = "...", api_key="...", 'token': "...", secret: str = "..."; also triple-quoted or concatenated
    (
        re.compile(
            rf"(?P<keep>\b[\w.]*{_SENSITIVE_NAMES}\w*['\"]?\s*\]?\s*(?::[\s\w.|\[\]]+)?[:=]\s*\(?\s*[rbuf]{{0,2}})"
            rf"(?P<quote>{_LITERAL})(?:\\.|(?!(?P=quote)).)+?(?P=quote)"
            r"(?:\s+[rbuf]{0,2}(?P=quote)(?:\\.|(?!(?P=quote)).)+?(?P=quote))*",
            re.IGNORECASE | re.DOTALL,
        ),
        r"\g<keep>\g<quote>***\g<quote>",
    ),
    # connection strings of drivers: host=db password=... dbname=x
    (
        re.compile(rf"(?P<keep>(?<![^\s;'\"])\w*{_SENSITIVE_NAMES}=)[^\s;'\"(),]+(?![^\s;'\"])", re.IGNORECASE),
        r"\g<keep>***",
    ),
    (re.compile(r"(?P<keep>\b(?:Bearer|Basic)\s+)[A-Za-z0-9._~+/-]{8,}=*", re.IGNORECASE), r"\g<keep>***"),
    (re.compile(r"-----BEGIN (?P<kind>[A-Z ]*PRIVATE KEY)-----.*?-----END (?P=kind)-----", re.DOTALL), "***"),
    # keys with a recognizable prefix: AWS, GitHub, Slack, OpenAI, JWT
    (
        re.compile(
            r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{20,}\b|\bgithub_pat_\w{20,}\b"
            r"|\bxox[baprs]-[A-Za-z0-9-]{10,}\b|\bsk-[A-Za-z0-9_-]{20,}\b|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]+"
        ),
        "***",
    ),
)


_TEXT = r"(?:'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\")"
_ENUM = re.compile(rf"\b(?P<name>enum)\((?:categories=\[)?\s*(?:{_TEXT}\s*,?\s*)*\]?\)", re.IGNORECASE)


@functools.lru_cache(maxsize=1024)
def redact_type(name: str) -> str:
    """Remove the categories of an ENUM type, which are data."""
    return _ENUM.sub(r"\g<name>", name)


@functools.lru_cache(maxsize=1024)
def redact(text: str) -> str:
    """Replace every recognizable secret in the text by ***."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
