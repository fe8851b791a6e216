"""Searchable text of a job or dataset: its names and the texts of its facets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

_MAX_DEPTH = 12
# Longer facet values are not search terms.
_MAX_VALUE_LENGTH = 200
_MAX_CHARACTERS = 20_000
# Facets with their own column, or with texts that are indexed elsewhere.
_SEPARATE_FACETS = frozenset(
    {"schema", "columnLineage", "lineage", "documentation", "tags", "sql", "sourceCode", "symlinks"}
)
_WORD_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")


class SearchDocument(Struct, frozen=True, array_like=True):
    """Columns of the full-text table, in order."""

    name: str
    namespace: str
    columns: str
    description: str
    tags: str
    code: str
    facets: str


def build_search_document(namespace: str, name: str, facets: Mapping[str, bytes]) -> SearchDocument:
    """Build the search document of a job or dataset."""
    values = {facet: _decode(body) for facet, body in facets.items()}
    fields = list(_fields(values.get("schema")))
    descriptions = [_text(values.get("documentation"), "description"), *(text for _, text in fields)]
    code = (_text(values.get("sql"), "query"), _text(values.get("sourceCode"), "sourceCode"))
    others = (
        text for facet, value in values.items() if facet not in _SEPARATE_FACETS for text in (facet, *_strings(value))
    )
    return SearchDocument(
        name=split_identifier(name),
        namespace=split_identifier(namespace),
        columns=_join(split_identifier(column) for column, _ in fields),
        description=_join(descriptions),
        tags=_join(_tags(values.get("tags"))),
        code=_join(code),
        facets=_join(others),
    )


def split_identifier(name: str) -> str:
    """Append the words of a camelCase name to it, so that `orderTotals` matches `totals`."""
    words = _WORD_BOUNDARY.sub(" ", name)
    return name if words == name else f"{name} {words}"


def _decode(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None


def _text(value: Any, key: str) -> str:
    text = value.get(key) if isinstance(value, dict) else None
    return text if isinstance(text, str) else ""


def _fields(value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the names and descriptions of columns, including nested ones."""
    fields = value.get("fields") if isinstance(value, dict) and depth < _MAX_DEPTH else None
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
        if len(value) <= _MAX_VALUE_LENGTH:
            yield value
    elif depth < _MAX_DEPTH:
        if isinstance(value, dict):
            # OpenLineage: keys that start with an underscore describe the facet, not the entity.
            for key, item in value.items():
                if not key.startswith("_"):
                    yield from _strings(item, depth + 1)
        elif isinstance(value, list):
            for item in value:
                yield from _strings(item, depth + 1)


def _join(texts: Any) -> str:
    parts: list[str] = []
    remaining = _MAX_CHARACTERS
    for text in texts:
        if text and remaining > 0:
            parts.append(text[:remaining])
            remaining -= len(text) + 1
    return " ".join(parts)
