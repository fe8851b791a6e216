"""`/api/v1/search`: search jobs and datasets by name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct

from clew.api.marquez.reading import json_response
from clew.api.marquez.requests import MAX_LIMIT, MarquezRequest, MarquezResponse
from clew.query.catalog.catalog import Catalog, EntityMatch

_DEFAULT_LIMIT = 10
_MIN_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_TIME = datetime(9999, 1, 1, tzinfo=UTC)
# UPDATE_AT is documented, UPDATED_AT is what Marquez accepts.
_SORT_ORDERS = ("NAME", "UPDATE_AT", "UPDATED_AT")


class NameSearchHit(Struct, frozen=True, rename="camel"):
    """Job or dataset with a matching name."""

    type: Literal["DATASET", "JOB"]
    name: str
    updated_at: datetime | None
    namespace: str
    node_id: str


def search_names(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /search`."""
    text = request.required_param("q")
    kinds = (request.enum_param("filter", ("DATASET", "JOB")),) if request.param("filter") else ("DATASET", "JOB")
    by_name = request.enum_param("sort", _SORT_ORDERS, "NAME") == "NAME"
    span = request.date_param("after") or _MIN_TIME, request.date_param("before") or _MAX_TIME
    matches = [
        match for kind in kinds for match in catalog.search_names(kind.lower(), text, request.param("namespace"), *span)
    ]
    if by_name:
        matches.sort(key=lambda match: (match.name, match.namespace, match.kind))
    else:
        matches.sort(key=lambda match: match.updated_at or _MIN_TIME, reverse=True)
    page = matches[: request.int_param("limit", _DEFAULT_LIMIT, MAX_LIMIT)]
    return json_response({"totalCount": len(matches), "results": [_name_search_hit(match) for match in page]})


def _name_search_hit(match: EntityMatch) -> NameSearchHit:
    kind: Literal["DATASET", "JOB"] = "JOB" if match.kind == "job" else "DATASET"
    return NameSearchHit(
        kind, match.name, match.updated_at, match.namespace, f"{match.kind}:{match.namespace}:{match.name}"
    )
