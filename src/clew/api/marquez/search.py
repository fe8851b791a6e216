"""Finding jobs and datasets by their names."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from msgspec import Raw, Struct

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


class Hit(Struct, frozen=True):
    """A job or a dataset that was found, with its facets and its last run."""

    run_id: str | None
    name: str
    namespace: str
    type: Literal["DATASET", "JOB"]
    facets: dict[str, Raw]


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


def search_jobs(catalog: Catalog, asked: Asked) -> Answer:
    """`GET /api/v2beta/search/jobs`."""
    return _hits(catalog, asked, "job")


def search_datasets(catalog: Catalog, asked: Asked) -> Answer:
    """`GET /api/v2beta/search/datasets`."""
    return _hits(catalog, asked, "dataset")


def _hits(catalog: Catalog, asked: Asked, kind: str) -> Answer:
    text = asked.required("q")
    found = catalog.named_like(kind, text, None, _BEGIN, _END)[:_LIMIT]
    names = [(one.namespace, one.name) for one in found]
    hits: list[Hit]
    if kind == "job":
        jobs = catalog.jobs_in_graphs(names)
        hits = [
            Hit(None if job.latest_run is None else job.latest_run.id, job.name, job.namespace, "JOB", job.facets)
            for job in jobs
        ]
    else:
        hits = [Hit(None, one.name, one.namespace, "DATASET", one.facets) for one in catalog.datasets_in_graphs(names)]
    return answer({"hits": hits, "highlights": [{"name": [_marked(hit.name, text)]} for hit in hits]})


def _result(match: Match) -> Result:
    kind: Literal["DATASET", "JOB"] = "JOB" if match.kind == "job" else "DATASET"
    return Result(kind, match.name, match.updated_at, match.namespace, f"{match.kind}:{match.namespace}:{match.name}")


def _marked(name: str, text: str) -> str:
    place = name.lower().find(text.lower())
    end = place + len(text)
    return name if place < 0 else f"{name[:place]}<em>{name[place:end]}</em>{name[end:]}"
