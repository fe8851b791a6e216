"""Keeping secrets out of events: passwords in URLs, keys and tokens in code."""

from __future__ import annotations

import functools
import re

_PATTERNS = (
    # scheme://user:password@host
    (re.compile(r"(?P<keep>[a-zA-Z][a-zA-Z0-9+.-]*://[^\s:/@'\"]+:)[^\s@'\"]+(?=@)"), r"\g<keep>***"),
    # password = "...", api_key="...", 'token': '...'
    (
        re.compile(
            r"(?P<keep>\b[\w.]*(?:password|passwd|pwd|secret|token|api_?key|access_?key|credentials?|authorization)\w*['\"]?\s*\]?\s*[:=]\s*[rbuf]?)"
            r"(?P<quote>['\"])(?:(?!(?P=quote)).)+(?P=quote)",
            re.IGNORECASE,
        ),
        r"\g<keep>\g<quote>***\g<quote>",
    ),
    # keys that show what they are: AWS, GitHub, Slack, OpenAI and the like
    (
        re.compile(
            r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{20,}\b|\bxox[baprs]-[A-Za-z0-9-]{10,}\b|\bsk-[A-Za-z0-9_-]{20,}\b"
        ),
        "***",
    ),
)


@functools.lru_cache(maxsize=1024)
def redacted(text: str) -> str:
    """The text with every secret that can be recognised replaced by ***."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
