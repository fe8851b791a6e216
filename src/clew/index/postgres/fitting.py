"""Sanitizing of values that PostgreSQL cannot store: strings with NUL, and names too long for its indexes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from operator import attrgetter
from typing import Any, Final

from msgspec import Struct

from clew.index.changes import ChangeSet
from clew.index.keys import KEY_SEPARATOR

# An index entry has at most 2,704 bytes and up to five names.
MAX_NAME_BYTES: Final = 500
_HEAD_BYTES = 400
_DIGEST = 32
# UTF-8 has at most four bytes per character.
_SAFE_LENGTH = MAX_NAME_BYTES // 4

NUL: Final = "\x00"
NUL_REPLACEMENT: Final = "\ufffd"
_NUL_IN_JSON = "\\u0000"
_IS_NAME = re.compile(r"(^|_)(asserted_by|column|id|name|namespace|state|uuid|version)$")
_JSON_LISTS = {"identifiers", "upstream"}


def sanitize_changes(changes: ChangeSet) -> ChangeSet:
    """Sanitize all strings of the changes in place; equal names are truncated to equal names in all columns."""
    is_changed = False
    for table in ChangeSet.__struct_fields__:
        rows = getattr(changes, table)
        if rows and isinstance(rows[0], Struct):
            for column, type_ in type(rows[0]).__annotations__.items():
                if type_.startswith("str"):
                    is_changed |= _sanitize_column(rows, column)
    if is_changed:
        # Recomputed from the sanitized names.
        for run in changes.runs:
            run.job_version = None
    return changes


def sanitize_name(text: str) -> str:
    """Return the name without NUL; a name that is too long is truncated, followed by a hash of the full name."""
    name = text.replace(NUL, NUL_REPLACEMENT)
    if len(name) <= _SAFE_LENGTH or len(encoded := name.encode()) <= MAX_NAME_BYTES:
        return name
    digest = sha256(encoded).hexdigest()[:_DIGEST]
    return f"{encoded[:_HEAD_BYTES].decode(errors='ignore')}…{digest}"


def _sanitizer_for(column: str) -> Callable[[str], str]:
    if column == "entity_key":
        return _sanitize_key
    if column in _JSON_LISTS:
        return _sanitize_json_list
    return sanitize_name if _IS_NAME.search(column) else _replace_nul


def _sanitize_column(rows: Sequence[Struct], column: str) -> bool:
    """Sanitize a column; returns True if a value may have changed."""
    # Usually all strings are short, and checking them together is much faster.
    strings = list(filter(None, map(attrgetter(column), rows)))
    joined = "".join(strings)
    if max(map(len, strings), default=0) <= _SAFE_LENGTH and NUL not in joined and _NUL_IN_JSON not in joined:
        return False
    sanitize = _sanitizer_for(column)
    for row in rows:
        value = getattr(row, column)
        if value is not None:
            setattr(row, column, sanitize(value))
    return True


def _sanitize_key(text: str) -> str:
    return KEY_SEPARATOR.join(map(sanitize_name, text.split(KEY_SEPARATOR)))


def _replace_nul(text: str) -> str:
    return text.replace(NUL, NUL_REPLACEMENT)


def _sanitize_json_list(text: str) -> str:
    return json.dumps(_sanitize_value(json.loads(text)))


def _sanitize_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_sanitize_value(item) for item in value]
    return sanitize_name(value) if isinstance(value, str) else value
