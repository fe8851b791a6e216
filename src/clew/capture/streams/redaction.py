"""Keeping secrets out of events: passwords in URLs, keys and tokens in code."""

from __future__ import annotations

import functools
import re

_SECRETS = (
    r"(?:password|passwd|passphrase|pwd|(?<![a-z])pw(?![a-z])|secret|token|authorization|credentials?"
    r"|(?:api|access|account|private|encryption)_?key)"
)
_LITERAL = r"(?:\"{3}|'{3}|['\"])"

_PATTERNS = (
    # scheme://user:password@host
    (re.compile(r"(?P<keep>[a-zA-Z][a-zA-Z0-9+.-]*://(?:\{[^{}]*\}|[^\s:/@'\"])*:)[^\s@'\"]+(?=@)"), r"\g<keep>***"),
    # https://host/path?token=...
    (
        re.compile(rf"(?P<keep>[?&](?:sig|signature|[\w-]*{_SECRETS}[\w-]*|X-Amz-\w+)=)[^&\s'\"]+", re.IGNORECASE),
        r"\g<keep>***",
    ),
    # password = "...", api_key="...", 'token': "...", secret: str = "..."; in three quotes, too, and in several pieces
    (
        re.compile(
            rf"(?P<keep>\b[\w.]*{_SECRETS}\w*['\"]?\s*\]?\s*(?::[\s\w.|\[\]]+)?[:=]\s*\(?\s*[rbuf]{{0,2}})"
            rf"(?P<quote>{_LITERAL})(?:\\.|(?!(?P=quote)).)+?(?P=quote)"
            r"(?:\s+[rbuf]{0,2}(?P=quote)(?:\\.|(?!(?P=quote)).)+?(?P=quote))*",
            re.IGNORECASE | re.DOTALL,
        ),
        r"\g<keep>\g<quote>***\g<quote>",
    ),
    # what drivers take for a connection: host=db password=... dbname=x
    (
        re.compile(rf"(?P<keep>(?<![^\s;'\"])\w*{_SECRETS}=)[^\s;'\"(),]+(?![^\s;'\"])", re.IGNORECASE),
        r"\g<keep>***",
    ),
    (re.compile(r"(?P<keep>\b(?:Bearer|Basic)\s+)[A-Za-z0-9._~+/-]{8,}=*", re.IGNORECASE), r"\g<keep>***"),
    (re.compile(r"-----BEGIN (?P<kind>[A-Z ]*PRIVATE KEY)-----.*?-----END (?P=kind)-----", re.DOTALL), "***"),
    # keys that show what they are: AWS, GitHub, Slack, OpenAI and the like
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
def type_name(name: str) -> str:
    """A type without the values that it lists: the categories of an ENUM are data."""
    return _ENUM.sub(r"\g<name>", name)


@functools.lru_cache(maxsize=1024)
def redacted(text: str) -> str:
    """The text with every secret that can be recognised replaced by ***."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
