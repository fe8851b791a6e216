"""What PostgreSQL cannot keep: texts with a NUL, and names too long for its indexes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Final

from msgspec import Struct

from clew.index.changes import Changes
from clew.index.keys import BETWEEN_PARTS

# An entry of an index takes at most 2,704 bytes, and up to five names.
MOST_BYTES: Final = 500
_HEAD_BYTES = 400
_DIGEST = 32
# UTF-8 has at most four bytes for a character.
_SURELY_SHORT = MOST_BYTES // 4

_NUL, _NUL_SHOWN = "\x00", "\ufffd"
_NUL_IN_JSON = "\\u0000"
_IS_NAME = re.compile(r"(^|_)(author|column|id|name|namespace|state|uuid|version)$")
_IS_LIST = {"identifiers", "upstream"}


def fitted(changes: Changes) -> Changes:
    """The changes with such texts replaced; a name is cut in the same way wherever it stands."""
    for table in Changes.__struct_fields__:
        rows = getattr(changes, table)
        if rows and isinstance(rows[0], Struct):
            ways = _ways(type(rows[0]))
            for row in rows:
                _fit(row, ways)
    return changes


def name(text: str) -> str:
    """A name that an index takes: the beginning of one that is long, and a hash of the whole."""
    whole = text.replace(_NUL, _NUL_SHOWN)
    encoded = whole.encode()
    if len(encoded) <= MOST_BYTES:
        return whole
    digest = sha256(encoded).hexdigest()[:_DIGEST]
    return f"{encoded[:_HEAD_BYTES].decode(errors='ignore')}…{digest}"


def _ways(kind: type[Struct]) -> Sequence[tuple[str, Callable[[str], str]]]:
    return [(column, _way(column)) for column in kind.__struct_fields__ if column != "body"]


def _way(column: str) -> Callable[[str], str]:
    if column == "entity":
        return _entity
    if column in _IS_LIST:
        return _list
    return name if _IS_NAME.search(column) else _content


def _fit(row: Struct, ways: Sequence[tuple[str, Callable[[str], str]]]) -> None:
    for column, way in ways:
        value = getattr(row, column)
        if isinstance(value, str) and (len(value) > _SURELY_SHORT or _NUL in value or _NUL_IN_JSON in value):
            setattr(row, column, way(value))


def _entity(text: str) -> str:
    return BETWEEN_PARTS.join(map(name, text.split(BETWEEN_PARTS)))


def _content(text: str) -> str:
    return text.replace(_NUL, _NUL_SHOWN)


def _list(text: str) -> str:
    return json.dumps(_fitted_list(json.loads(text)))


def _fitted_list(value: Any) -> Any:
    if isinstance(value, list):
        return [_fitted_list(item) for item in value]
    return name(value) if isinstance(value, str) else value
