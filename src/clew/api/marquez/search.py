"""`/api/v1/search`: jobs and datasets by parts of their names."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct

from clew.api.marquez.reading import answer
from clew.api.marquez.requests import MOST_LISTED, Answer, Asked
from clew.query.catalog.catalog import Catalog, Match

_LIMIT = 10
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_END = datetime(9999, 1, 1, tzinfo=UTC)
# As documented, and as Marquez really takes it.
_SORTS = ("NAME", "UPDATE_AT", "UPDATED_AT")


class Result(Struct, frozen=True, rename="camel"):
    """A job or a dataset that was found."""

    type: Literal["DATASET", "JOB"]
    name: str
    updated_at: datetime | None
    namespace: str
    node_id: str


def search(catalog: Catalog, asked: Asked) -> Answer:
    """`GET /search`."""
    text = asked.required("q")
    kinds = (asked.choice("filter", ("DATASET", "JOB")),) if asked.text("filter") else ("DATASET", "JOB")
    by_name = asked.choice("sort", _SORTS, "NAME") == "NAME"
    span = asked.day("after") or _BEGIN, asked.day("before") or _END
    found = [one for kind in kinds for one in catalog.named_like(kind.lower(), text, asked.text("namespace"), *span)]
    if by_name:
        found.sort(key=lambda one: (one.name, one.namespace, one.kind))
    else:
        found.sort(key=lambda one: one.updated_at or _BEGIN, reverse=True)
    listed = found[: asked.number("limit", _LIMIT, MOST_LISTED)]
    return answer({"totalCount": len(found), "results": [_result(one) for one in listed]})


def _result(match: Match) -> Result:
    kind: Literal["DATASET", "JOB"] = "JOB" if match.kind == "job" else "DATASET"
    return Result(kind, match.name, match.updated_at, match.namespace, f"{match.kind}:{match.namespace}:{match.name}")
