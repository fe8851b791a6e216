"""Search for jobs, datasets and runs."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from clew.api.operations import ApiOperation, OperationContext
from clew.api.parameters import CursorParam, EnumParam, IntegerParam, StringParam, encode_cursor
from clew.query.search.hits import MAX_HITS, Hit, search_entities

_CURSOR = CursorParam("cursor", "Cursor of the page: next of the previous response.")


class SearchPage(Struct, frozen=True, rename="camel"):
    """Search hits, best match first. Not complete while the search index is behind the query index."""

    hits: tuple[Hit, ...]
    total: int
    is_complete: bool
    did_you_mean: tuple[str, ...]
    next: str | None


def _search(context: OperationContext) -> SearchPage:
    values = _CURSOR.check_values(context["cursor"], int)
    offset, limit = 0 if values is None else max(0, min(values[0], MAX_HITS)), context["limit"]
    result = search_entities(
        context.resources.search_index,
        context.index,
        context["q"],
        kind=context["kind"],
        namespace=context["namespace"],
        limit=limit,
        offset=offset,
    )
    end = offset + limit
    return SearchPage(
        result.hits,
        result.total,
        result.is_complete,
        result.did_you_mean,
        encode_cursor(end) if end < min(result.total, MAX_HITS) else None,
    )


SEARCH_OPERATIONS: Final = (
    ApiOperation(
        "search",
        "/api/v2/search",
        "Search jobs and datasets by name, column, description, tag, code and facet; runs by id",
        (
            StringParam("q", "Words or prefixes of words; all must match.", is_required=True, example="orders"),
            EnumParam("kind", "Only jobs or only datasets.", choices=("dataset", "job")),
            StringParam("namespace", "Only this namespace."),
            IntegerParam("limit", "Maximum number of results.", minimum=1, maximum=200, default_value=20),
            _CURSOR,
        ),
        SearchPage,
        _search,
    ),
)
