"""What can be found of a job or a dataset: its names, and the texts that its facets hold."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

_MOST_DEPTH = 12
# A text of a facet that is longer is no value that anyone would type.
_LONGEST_VALUE = 200
_MOST_CHARACTERS = 20_000
# What has a column of its own, or says nothing that is not said elsewhere.
_READ_APART = frozenset(
    {"schema", "columnLineage", "lineage", "documentation", "tags", "sql", "sourceCode", "symlinks"}
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")


class Texts(Struct, frozen=True, array_like=True):
    """The columns of the search table, in its order."""

    name: str
    namespace: str
    columns: str
    description: str
    tags: str
    code: str
    facets: str


def texts_of(namespace: str, name: str, facets: Mapping[str, bytes]) -> Texts:
    """What is to be found of an entity."""
    values = {facet: _value(body) for facet, body in facets.items()}
    fields = list(_fields(values.get("schema")))
    described = [_text(values.get("documentation"), "description"), *(text for _, text in fields)]
    code = (_text(values.get("sql"), "query"), _text(values.get("sourceCode"), "sourceCode"))
    others = (text for facet, value in values.items() if facet not in _READ_APART for text in (facet, *_strings(value)))
    return Texts(
        name=in_words(name),
        namespace=in_words(namespace),
        columns=_joined(in_words(column) for column, _ in fields),
        description=_joined(described),
        tags=_joined(_tags(values.get("tags"))),
        code=_joined(code),
        facets=_joined(others),
    )


def in_words(name: str) -> str:
    """A name, and its parts where it is written in one word: orderTotals is found by totals."""
    apart = _HUMP.sub(" ", name)
    return name if apart == name else f"{name} {apart}"


def _value(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None


def _text(value: Any, key: str) -> str:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def _fields(value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """The names and descriptions of columns, those within columns included."""
    fields = value.get("fields") if isinstance(value, dict) and depth < _MOST_DEPTH else None
    for field in fields if isinstance(fields, list) else ():
        if isinstance(field, dict):
            yield _text(field, "name"), _text(field, "description")
            yield from _fields(field, depth + 1)


def _tags(value: Any) -> Iterator[str]:
    tags = value.get("tags") if isinstance(value, dict) else None
    for tag in tags if isinstance(tags, list) else ():
        yield from (_text(tag, key) for key in ("key", "value", "field"))


def _strings(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) <= _LONGEST_VALUE:
            yield value
    elif depth < _MOST_DEPTH:
        if isinstance(value, dict):
            # Spec: what starts with an underscore is about the facet, not about the entity.
            for key, one in value.items():
                if not key.startswith("_"):
                    yield from _strings(one, depth + 1)
        elif isinstance(value, list):
            for one in value:
                yield from _strings(one, depth + 1)


def _joined(texts: Any) -> str:
    found: list[str] = []
    room = _MOST_CHARACTERS
    for text in texts:
        if text and room > 0:
            found.append(text[:room])
            room -= len(text) + 1
    return " ".join(found)
