"""Searching for jobs, datasets and runs."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from clew.api.operations import Asked, Operation
from clew.api.parameters import Choice, Cursor, Integer, Text, cursor_of
from clew.query.search.hits import MOST_HITS, Hit, search

_CURSOR = Cursor("cursor", "Where the page before ended: next of its answer.")


class SearchPage(Struct, frozen=True, rename="camel"):
    """What was found, the best match first. Not complete: the index has more that is not searched yet."""

    hits: tuple[Hit, ...]
    total: int
    is_complete: bool
    did_you_mean: tuple[str, ...]
    next: str | None


def _search(asked: Asked) -> SearchPage:
    noted = _CURSOR.shape(asked["cursor"], int)
    offset, limit = 0 if noted is None else max(0, min(noted[0], MOST_HITS)), asked["limit"]
    found = search(
        asked.holdings.search_file,
        asked.index,
        asked["q"],
        kind=asked["kind"],
        namespace=asked["namespace"],
        limit=limit,
        offset=offset,
    )
    end = offset + limit
    return SearchPage(
        found.hits,
        found.total,
        found.is_complete,
        found.did_you_mean,
        cursor_of(end) if end < min(found.total, MOST_HITS) else None,
    )


SEARCH_OPERATIONS: Final = (
    Operation(
        "search",
        "/api/v2/search",
        "Find jobs and datasets by names, columns, descriptions, tags, code and facets; runs by their id",
        (
            Text("q", "Words, or beginnings of words; all must be found.", is_required=True, example="orders"),
            Choice("kind", "Only jobs, or only datasets.", words=("dataset", "job")),
            Text("namespace", "Only those of this namespace."),
            Integer("limit", "How many to tell.", least=1, most=200, usual=20),
            _CURSOR,
        ),
        SearchPage,
        _search,
    ),
)
