"""What is told of an exception that ended a cell: its own words, without the data that they speak of."""

from __future__ import annotations

import builtins
import dis
import re
import sys
import traceback
from typing import TYPE_CHECKING

from clew.capture.callers import is_user_code
from clew.capture.streams.entries import Failure
from clew.capture.streams.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, TracebackType

_HIDDEN = "***"
_MOST_CHARACTERS = 10_000
_RAISE = dis.opmap["RAISE_VARARGS"]
# An apostrophe within a word quotes nothing; a long message may be cut off within quotes.
_QUOTED = re.compile(r"(?<!\w)(?P<quote>['\"`])(?P<text>.+?)(?:(?P=quote)(?!\w)|\Z)", re.DOTALL)
# Where parsers of dates name what they could not read, without quotes.
_UNQUOTED = re.compile(
    r"(?P<keep>(?:unable to parse|[Uu]nknown string format|contain a date|range for month|bounds \w+ timestamp): )"
    r"(?P<text>.+?)(?=, at position|$)",
    re.DOTALL,
)
_WITH_TYPES = ("pandas", "numpy", "polars")
_SHORT_TYPE = re.compile(r"[iuf]\d+")
_TOKEN = re.compile(r"\S+")
_WORD = re.compile(r"[^\W\d]\w*")
_SEVERAL = re.compile(r"\*{3}(?:\s+\*{3})+")
# pandas puts a sentence where others put the key that is missing.
_SENTENCES = ("[", "None of [")


def failure_of(error: BaseException, source: str) -> Failure:
    """An exception of the cell with this source, with the frames of the user's code only."""
    return Failure(type(error).__name__, message_of(error, source), _user_traceback(error))


def message_of(error: BaseException, source: str) -> str:
    """What an exception says, less what it quotes unless that stands in the code; some fail even at that."""
    try:
        # Redacted first: a password that stands in the code must not be taken for a word of it.
        return redacted(_told(error, redacted(source)))
    except Exception as failure:  # noqa: BLE001 - a user's __str__ may raise anything
        return f"(no message: {type(failure).__name__})"


def _told(error: BaseException, source: str) -> str:
    raised_by = _raised_by(error.__traceback__)
    if raised_by is not None:
        return _in_words_of_code(error, raised_by, source)
    if isinstance(error, KeyError) and len(error.args) == 1 and str(error.args[0]).startswith(_SENTENCES):
        return repr(_unquoted(str(error.args[0]), source))
    # What has no such name: it stands in the code, or in that of a library.
    missing = getattr(error, "name", None)
    return _unquoted(str(error)[:_MOST_CHARACTERS], f"{source}\n{missing}" if isinstance(missing, str) else source)


def _unquoted(text: str, source: str) -> str:
    """A message of some library: what it quotes is data, unless it stands in the code or is the name of a type."""

    def hidden(found: re.Match[str]) -> str:
        is_told = found["text"] in source or _is_type(found["text"])
        return found[0] if is_told else found[0].replace(found["text"], _HIDDEN)

    return _UNQUOTED.sub(hidden, _QUOTED.sub(hidden, text))


def _is_type(text: str) -> bool:
    known = [vars(builtins), *[vars(sys.modules[name]) for name in _WITH_TYPES if name in sys.modules]]
    return any(text in names for names in known) or _SHORT_TYPE.fullmatch(text) is not None


def _raised_by(trace: TracebackType | None) -> CodeType | None:
    """The user's code that raised, if it did so itself."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not is_user_code(trace.tb_frame.f_code):
        return None
    code = trace.tb_frame.f_code
    return code if code.co_code[trace.tb_lasti] == _RAISE else None


def _in_words_of_code(error: BaseException, code: CodeType, source: str) -> str:
    """A message that the user's code made: words that do not stand in the code came from elsewhere."""
    cause = error.__cause__ or error.__context__
    earlier = message_of(cause, source) if cause is not None else ""
    known = set(_WORD.findall(" ".join((source, earlier, *_texts_in(code), *_texts_of(type(error))))))

    def hidden(found: re.Match[str]) -> str:
        return found[0] if known.issuperset(_WORD.findall(found[0])) else _HIDDEN

    return _SEVERAL.sub(_HIDDEN, _TOKEN.sub(hidden, str(error)[:_MOST_CHARACTERS]))


def _texts_of(kind: type) -> Iterator[str]:
    for name in ("__init__", "__str__"):
        code = getattr(getattr(kind, name), "__code__", None)
        if code is not None:
            yield from _texts_in(code)


def _texts_in(code: CodeType) -> Iterator[str]:
    for constant in code.co_consts:
        if isinstance(constant, str):
            yield constant


def _user_traceback(error: BaseException) -> str:
    """The lines of a traceback that are the user's own."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    summary = traceback.extract_tb(error.__traceback__)
    kept = [line for frame, line in zip(frames, summary, strict=True) if is_user_code(frame.f_code)]
    return redacted("".join(traceback.format_list(kept)))
