"""What PostgreSQL cannot keep: texts with a NUL, and names too long for its indexes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from operator import attrgetter
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

NUL: Final = "\x00"
NUL_SHOWN: Final = "\ufffd"
_NUL_IN_JSON = "\\u0000"
_IS_NAME = re.compile(r"(^|_)(author|column|id|name|namespace|state|uuid|version)$")
_IS_LIST = {"identifiers", "upstream"}


def fitted(changes: Changes) -> Changes:
    """The changes with such texts replaced; a name is cut in the same way wherever it stands."""
    are_others = False
    for table in Changes.__struct_fields__:
        rows = getattr(changes, table)
        if rows and isinstance(rows[0], Struct):
            for column, type_ in type(rows[0]).__annotations__.items():
                if type_.startswith("str"):
                    are_others |= _fit(rows, column)
    if are_others:
        # They follow from names as they are kept.
        for run in changes.runs:
            run.job_version = None
    return changes


def name(text: str) -> str:
    """A name that an index takes: the beginning of one that is long, and a hash of the whole."""
    whole = text.replace(NUL, NUL_SHOWN)
    if len(whole) <= _SURELY_SHORT or len(encoded := whole.encode()) <= MOST_BYTES:
        return whole
    digest = sha256(encoded).hexdigest()[:_DIGEST]
    return f"{encoded[:_HEAD_BYTES].decode(errors='ignore')}…{digest}"


def _way(column: str) -> Callable[[str], str]:
    if column == "entity":
        return _entity
    if column in _IS_LIST:
        return _list
    return name if _IS_NAME.search(column) else _content


def _fit(rows: Sequence[Struct], column: str) -> bool:
    """Replace such texts of a column; whether there may have been one."""
    # Most often all texts are short, and that is told much faster of all of them at once.
    texts = list(filter(None, map(attrgetter(column), rows)))
    whole = "".join(texts)
    if max(map(len, texts), default=0) <= _SURELY_SHORT and NUL not in whole and _NUL_IN_JSON not in whole:
        return False
    way = _way(column)
    for row in rows:
        value = getattr(row, column)
        if value is not None:
            setattr(row, column, way(value))
    return True


def _entity(text: str) -> str:
    return BETWEEN_PARTS.join(map(name, text.split(BETWEEN_PARTS)))


def _content(text: str) -> str:
    return text.replace(NUL, NUL_SHOWN)


def _list(text: str) -> str:
    return json.dumps(_fitted_list(json.loads(text)))


def _fitted_list(value: Any) -> Any:
    if isinstance(value, list):
        return [_fitted_list(item) for item in value]
    return name(value) if isinstance(value, str) else value
