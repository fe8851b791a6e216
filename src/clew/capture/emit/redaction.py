"""Remove secrets from code and data values from error messages."""

from __future__ import annotations

import builtins
import dis
import functools
import re
import sys
import traceback
from typing import TYPE_CHECKING

from clew.capture.emit.files import CellFailure
from clew.capture.introspection.user_code import is_user_code

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, TracebackType


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


_MASK = "***"
_MAX_MESSAGE_CHARS = 10_000
_RAISE_OPCODE = dis.opmap["RAISE_VARARGS"]
# An apostrophe within a word is no quote; a truncated message may end within quotes.
_QUOTED = re.compile(r"(?<!\w)(?P<quote>['\"`])(?P<text>.+?)(?:(?P=quote)(?!\w)|\Z)", re.DOTALL)
# Messages of date parsers that include the unparsed value without quotes.
_UNQUOTED = re.compile(
    r"(?P<keep>(?:unable to parse|[Uu]nknown string format|contain a date|range for month|bounds \w+ timestamp): )"
    r"(?P<text>.+?)(?=, at position|$)",
    re.DOTALL,
)
_TYPE_MODULES = ("pandas", "numpy", "polars")
_SHORT_TYPE = re.compile(r"[iuf]\d+")
_TOKEN = re.compile(r"\S+")
_WORD = re.compile(r"[^\W\d]\w*")
_REPEATED_MASKS = re.compile(r"\*{3}(?:\s+\*{3})+")
# KeyErrors of pandas with a sentence instead of the missing key.
_SENTENCES = ("[", "None of [")


_QUOTED_VALUE = re.compile(r"'(?:[^']|'')*'")


def redact_query(text: str, source: str) -> str:
    """Redact a SQL query: quoted values are masked unless they occur in the code, as those of an f-string."""
    return redact(text if text.strip() in source else _QUOTED_VALUE.sub(lambda match: _mask_value(match, source), text))


def _mask_value(match: re.Match[str], source: str) -> str:
    return match[0] if match[0] in source else "'***'"


def describe_failure(error: BaseException, source: str) -> CellFailure:
    """Describe an exception of the cell with this source, with the traceback of user code."""
    return CellFailure(type(error).__name__, redacted_message(error, source), _user_traceback(error))


def redacted_message(error: BaseException, source: str) -> str:
    """Return the message of an exception, with quoted values masked unless they occur in the code."""
    try:
        # The source is redacted first, so that a password in the code does not count as known text.
        return redact(_redact_error(error, redact(source)))
    except Exception as failure:  # noqa: BLE001 - a user's __str__ may raise anything
        return f"(no message: {type(failure).__name__})"


def _redact_error(error: BaseException, source: str) -> str:
    raised_by = _raising_code(error.__traceback__)
    if raised_by is not None:
        return _mask_unknown_words(error, raised_by, source)
    if isinstance(error, KeyError) and len(error.args) == 1 and str(error.args[0]).startswith(_SENTENCES):
        return repr(_mask_quoted(str(error.args[0]), source))
    # The name attribute of NameError and AttributeError is an identifier, not data.
    missing = getattr(error, "name", None)
    return _mask_quoted(str(error)[:_MAX_MESSAGE_CHARS], f"{source}\n{missing}" if isinstance(missing, str) else source)


def _mask_quoted(text: str, source: str) -> str:
    """Mask the quoted values of a library's message, unless they occur in the code or are type names."""

    def mask(match: re.Match[str]) -> str:
        is_public = match["text"] in source or _is_type(match["text"])
        return match[0] if is_public else match[0].replace(match["text"], _MASK)

    return _UNQUOTED.sub(mask, _QUOTED.sub(mask, text))


def _is_type(text: str) -> bool:
    namespaces = [vars(builtins), *[vars(sys.modules[name]) for name in _TYPE_MODULES if name in sys.modules]]
    return any(text in names for names in namespaces) or _SHORT_TYPE.fullmatch(text) is not None


def _raising_code(trace: TracebackType | None) -> CodeType | None:
    """Return the user code that raised, or None if a library raised."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not is_user_code(trace.tb_frame.f_code):
        return None
    code = trace.tb_frame.f_code
    return code if code.co_code[trace.tb_lasti] == _RAISE_OPCODE else None


def _mask_unknown_words(error: BaseException, code: CodeType, source: str) -> str:
    """Mask the words of a message raised by user code that do not occur in the code: they may be data."""
    cause = error.__cause__ or error.__context__
    earlier = redacted_message(cause, source) if cause is not None else ""
    known_words = set(
        _WORD.findall(" ".join((source, earlier, *_string_constants(code), *_class_string_constants(type(error)))))
    )

    def mask(match: re.Match[str]) -> str:
        return match[0] if known_words.issuperset(_WORD.findall(match[0])) else _MASK

    return _REPEATED_MASKS.sub(_MASK, _TOKEN.sub(mask, str(error)[:_MAX_MESSAGE_CHARS]))


def _class_string_constants(kind: type) -> Iterator[str]:
    for name in ("__init__", "__str__"):
        code = getattr(getattr(kind, name), "__code__", None)
        if code is not None:
            yield from _string_constants(code)


def _string_constants(code: CodeType) -> Iterator[str]:
    for constant in code.co_consts:
        if isinstance(constant, str):
            yield constant


def _user_traceback(error: BaseException) -> str:
    """Format the traceback lines of user code."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    summary = traceback.extract_tb(error.__traceback__)
    user_lines = [line for frame, line in zip(frames, summary, strict=True) if is_user_code(frame.f_code)]
    return redact("".join(traceback.format_list(user_lines)))
