"""GET handlers, including search."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from clew.api.marquez.http import MAX_LIMIT, MarquezRequest, MarquezResponse, not_found_error
from clew.api.marquez.schemas import (
    Document,
    format_dataset,
    format_dataset_version,
    format_job,
    format_job_version,
    format_run,
    format_source,
    marquez_job_type,
)
from clew.events.decoding import decode_object
from clew.events.facets import decode_facet
from clew.events.openlineage import parse_time
from clew.index.queries.entities import Name
from clew.query.context import QueryResources
from clew.query.entities.catalog import Catalog, Interval, daily_intervals, hourly_intervals
from clew.query.entities.model import CatalogDataset, CatalogJob, CatalogRun, Namespace
from clew.query.search import search_entities, split_words
from clew.query.search_index import EntityKind, facet_texts

T = TypeVar("T")

_STATES = ("NEW", "RUNNING", "COMPLETED", "ABORTED", "FAILED", "OTHER")
_MIN_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_TIME = datetime(9999, 1, 1, tzinfo=UTC)
_encode = msgspec.json.Encoder(order=None).encode


def json_response(value: object, status: int = 200) -> MarquezResponse:
    """Create a JSON response."""
    return MarquezResponse(_encode(value), status)


def get_namespaces(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /namespaces`."""
    return json_response({"namespaces": request.slice(catalog.namespaces())})


def get_namespace(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /namespaces/{namespace}`."""
    return json_response(require_namespace(catalog, request.path_args[0]))


def require_namespace(catalog: Catalog, name: str) -> Namespace:
    """Return a namespace, or raise 404."""
    return _found("Namespace", name, {namespace.name: namespace for namespace in catalog.namespaces()}.get(name))


def get_sources(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /sources`."""
    return json_response({"sources": list(map(format_source, request.slice(catalog.sources())))})


def get_source(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /sources/{source}`."""
    (name,) = request.path_args
    source = _found("Source", name, {source.name: source for source in catalog.sources()}.get(name))
    return json_response(format_source(source))


def get_datasets(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /namespaces/{namespace}/datasets`."""
    (name,) = request.path_args
    datasets, total = catalog.datasets(name, *request.page())
    if not datasets:
        _check_namespace(catalog, name)
    return json_response({"totalCount": total, "datasets": list(map(format_dataset, datasets))})


def get_dataset(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /namespaces/{namespace}/datasets/{dataset}`."""
    return json_response(format_dataset(require_dataset(catalog, request)))


def require_dataset(catalog: Catalog, request: MarquezRequest) -> CatalogDataset:
    """Return the dataset of the path, or raise 404."""
    return _require("Dataset", catalog.dataset(request.entity_name), catalog, request)


def get_dataset_versions(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /namespaces/{namespace}/datasets/{dataset}/versions`."""
    require_dataset(catalog, request)
    versions, total = catalog.dataset_versions(request.entity_name, *request.page())
    return json_response({"versions": list(map(format_dataset_version, versions)), "totalCount": total})


def get_dataset_version(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /namespaces/{namespace}/datasets/{dataset}/versions/{version}`."""
    require_dataset(catalog, request)
    version = request.path_args[2]
    dataset_version = _found("Dataset version", version, catalog.dataset_version(request.entity_name, version))
    return json_response(format_dataset_version(dataset_version))


def get_jobs(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /jobs` and `GET /namespaces/{namespace}/jobs`."""
    namespace = request.path_args[0] if request.path_args else None
    jobs, total = catalog.jobs(namespace, _states(request), *request.page())
    return json_response({"totalCount": total, "jobs": list(map(format_job, jobs))})


def get_job(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /namespaces/{namespace}/jobs/{job}`."""
    return json_response(format_job(require_job(catalog, request)))


def require_job(catalog: Catalog, request: MarquezRequest) -> CatalogJob:
    """Return the job of the path, or raise 404."""
    return _require("Job", catalog.job(request.entity_name), catalog, request)


def get_job_versions(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /namespaces/{namespace}/jobs/{job}/versions`."""
    return json_response({"versions": request.slice(_job_versions(catalog, request))})


def get_job_version(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /namespaces/{namespace}/jobs/{job}/versions/{version}`."""
    version = request.path_args[2]
    versions = {candidate["version"]: candidate for candidate in _job_versions(catalog, request)}
    found = versions.get(version) or versions.get(catalog.resolve_job_version(version))
    return json_response(_found("Job version", version, found))


def get_job_runs(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /namespaces/{namespace}/jobs/{job}/runs`."""
    job = require_job(catalog, request)
    runs, total = catalog.runs_of_job((job.namespace, job.name), *request.page())
    return json_response({"runs": list(map(format_run, runs)), "totalCount": total})


def get_run(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /jobs/runs/{run}`."""
    (run_id,) = request.path_args
    return json_response(format_run(_found("Run", run_id, catalog.run(run_id))))


def get_run_facets(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /jobs/runs/{run}/facets`."""
    (run_id,) = request.path_args
    kind = request.enum_param("type", ("RUN", "JOB", "DATASET"))
    if kind == "DATASET":
        _found("Run", run_id, catalog.run(run_id))
        # As in Marquez: an empty body.
        return MarquezResponse(b"")
    facets = _found("Run", run_id, catalog.run_facets(run_id, kind.lower()))
    return json_response({"runId": run_id, "facets": facets})


def get_tags(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /tags`."""
    return json_response({"tags": request.slice(catalog.annotations.tag_definitions())})


def get_events(catalog: Catalog, request: MarquezRequest, log: Path) -> MarquezResponse:
    """`GET /events/lineage`."""
    order = request.enum_param("sortDirection", ("ASC", "DESC"), "DESC")
    span = request.timestamp_param("after", _MIN_TIME), request.timestamp_param("before", _MAX_TIME)
    events, total = catalog.events(log, *span, *request.page(), is_newest_first=order == "DESC")
    return json_response({"events": list(map(_with_instant, events)), "totalCount": total})


class _EventTime(Struct, rename="camel"):
    event_time: str


_decode_event_time = msgspec.json.Decoder(_EventTime).decode
# Formats that Java reads as a time with a zone.
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)(\[[^\]]+\])?")


def _with_instant(event: Raw) -> Raw:
    """Return an event as received, except for an event time without a zone, a bare date or another format."""
    text = _decode_event_time(event).event_time
    if _INSTANT.fullmatch(text):
        return event
    members = decode_object(event)
    members["eventTime"] = Raw(_encode(parse_time(text)))
    return Raw(_encode(members))


def get_event_stats(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /stats/lineage-events`."""
    return json_response(catalog.event_counts(_intervals(request)))


def get_entity_stats(catalog: Catalog, request: MarquezRequest, kind: str) -> MarquezResponse:
    """`GET /stats/jobs`, `/stats/datasets` and `/stats/sources`."""
    return json_response(catalog.entity_counts(kind, _intervals(request)))


def _intervals(request: MarquezRequest) -> list[Interval]:
    now = datetime.now(UTC)
    if request.enum_param("period", ("DAY", "WEEK")) == "DAY":
        return hourly_intervals(now)
    return daily_intervals(now, request.time_zone_param("timezone"))


def _states(request: MarquezRequest) -> list[str] | None:
    values = request.params.get("lastRunStates")
    if not values:
        return None
    states = [state.upper() for state in values]
    for state in states:
        MarquezRequest((), f"lastRunStates={state}".encode()).enum_param("lastRunStates", _STATES)
    return states


def _require(kind: str, entity: T | None, catalog: Catalog, request: MarquezRequest) -> T:
    """Return the entity of the path, or raise 404 for it or for its namespace."""
    if entity is None:
        _check_namespace(catalog, request.path_args[0])
    return _found(kind, request.path_args[1], entity)


def _found(kind: str, name: str, entity: T | None) -> T:
    """Return an entity, or raise 404."""
    if entity is None:
        raise not_found_error(kind, name)
    return entity


def _check_namespace(catalog: Catalog, name: str) -> None:
    if not catalog.has_namespace(name):
        raise not_found_error("Namespace", name)


def _job_versions(catalog: Catalog, request: MarquezRequest) -> list[Document]:
    job = require_job(catalog, request)
    return [format_job_version(version) for version in catalog.job_versions((job.namespace, job.name))]


_LIMIT: Final = 10
_EVENT_TYPES: Final = {"COMPLETED": "COMPLETE", "FAILED": "FAIL", "ABORTED": "ABORT", "RUNNING": "RUNNING"}
# Larger facets are not highlighted.
_MAX_FACET_BYTES = 256 << 10
# Characters of a highlight before the first match, and in total.
_CONTEXT_CHARS, _FRAGMENT_CHARS = 30, 100


class TextSearchHandlers:
    """Handlers of the full-text search endpoints."""

    def __init__(self, resources: QueryResources) -> None:
        self._search_index = resources.search_index

    def jobs(self, catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
        """`GET /api/v2beta/search/jobs`."""
        text, names = self._search(catalog, request, "job")
        jobs = {(job.namespace, job.name): job for job in catalog.job_summaries(names)}
        return _search_response(text, [_job_hit(jobs[name]) for name in names if name in jobs])

    def datasets(self, catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
        """`GET /api/v2beta/search/datasets`."""
        text, names = self._search(catalog, request, "dataset")
        datasets = {(dataset.namespace, dataset.name): dataset for dataset in catalog.dataset_summaries(names)}
        writers = catalog.last_writers(datasets)
        return _search_response(
            text, [_dataset_hit(datasets[name], writers.get(name)) for name in names if name in datasets]
        )

    def _search(self, catalog: Catalog, request: MarquezRequest, kind: EntityKind) -> tuple[str, list[Name]]:
        text = request.required_param("q")
        result = search_entities(self._search_index, catalog.reader, text, kind=kind, limit=_LIMIT)
        return text, [(hit.namespace, hit.name) for hit in result.hits]


# The names are those of events, except `run_id`.
def _job_hit(job: CatalogJob) -> Document:
    """Convert a job with the facets of its latest run."""
    run = job.latest_run
    return {
        "run_id": None if run is None else run.id,
        "name": job.name,
        "namespace": job.namespace,
        "eventType": None if run is None else _EVENT_TYPES.get(run.state),
        "type": marquez_job_type(job),
        "facets": job.facets,
        "runFacets": {} if run is None else run.facets,
    }


def _dataset_hit(dataset: CatalogDataset, run: CatalogRun | None) -> Document:
    """Convert a dataset with the output facets of the run that wrote it, and the input facets of the last reads."""
    name = dataset.namespace, dataset.name
    outputs = () if run is None else run.outputs
    return {
        "run_id": None if run is None else run.id,
        "name": dataset.name,
        "namespace": dataset.namespace,
        "eventType": None if run is None else _EVENT_TYPES.get(run.state),
        "facets": dataset.facets,
        "inputFacets": dataset.input_facets,
        "outputFacets": next((item.facets for item in outputs if (item.namespace, item.name) == name), {}),
    }


def _search_response(text: str, hits: Sequence[Document]) -> MarquezResponse:
    pattern = re.compile("|".join(map(re.escape, split_words(text))) or "(?!)", re.IGNORECASE)
    return json_response({"hits": hits, "highlights": [_highlights(hit, pattern) for hit in hits]})


def _highlights(hit: Document, pattern: re.Pattern[str]) -> dict[str, list[str]]:
    """Return the matching fragments by field."""
    highlights: dict[str, list[str]] = {}
    for field, text in _searched_texts(hit):
        first = pattern.search(text)
        if first is not None:
            start = max(0, first.start() - _CONTEXT_CHARS) if len(text) > _FRAGMENT_CHARS else 0
            fragment = pattern.sub(lambda match: f"<em>{match[0]}</em>", text[start : start + _FRAGMENT_CHARS])
            highlights.setdefault(field, []).append(fragment)
    return highlights


def _searched_texts(hit: Document) -> Iterator[tuple[str, str]]:
    yield from (("name", hit["name"]), ("namespace", hit["namespace"]))
    for name, facet in _small_facets(hit["facets"]).items():
        yield from facet_texts(decode_facet(bytes(facet)), f"facets.{name}")


def _small_facets(facets: Mapping[str, Raw]) -> dict[str, Raw]:
    return {name: facet for name, facet in facets.items() if len(bytes(facet)) <= _MAX_FACET_BYTES}


# UPDATE_AT is documented, UPDATED_AT is what Marquez accepts.
_SORT_ORDERS = ("NAME", "UPDATE_AT", "UPDATED_AT")


def search_names(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /search`."""
    text = request.required_param("q")
    kinds = (request.enum_param("filter", ("DATASET", "JOB")),) if request.param("filter") else ("DATASET", "JOB")
    by_name = request.enum_param("sort", _SORT_ORDERS, "NAME") == "NAME"
    span = request.date_param("after") or _MIN_TIME, request.date_param("before") or _MAX_TIME
    namespace = request.param("namespace")
    hits: list[Document] = [
        {
            "type": "JOB" if node.kind == "job" else "DATASET",
            "name": node.name,
            "updatedAt": updated_at,
            "namespace": node.namespace,
            "nodeId": node.id,
        }
        for kind in kinds
        for node, updated_at in catalog.search_names(kind.lower(), text, namespace, *span)
    ]
    if by_name:
        hits.sort(key=itemgetter("name", "namespace", "type"))
    else:
        hits.sort(key=lambda hit: hit["updatedAt"] or _MIN_TIME, reverse=True)
    page = hits[: request.int_param("limit", _LIMIT, MAX_LIMIT)]
    return json_response({"totalCount": len(hits), "results": page})
