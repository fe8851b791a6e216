"""GET handlers: namespaces, sources, jobs, runs, datasets, versions, tags, events and statistics."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from clew.api.marquez.requests import MarquezRequest, MarquezResponse, not_found_error
from clew.api.marquez.shapes import (
    JobVersionSchema,
    format_dataset,
    format_dataset_version,
    format_job,
    format_job_version,
    format_namespace,
    format_run,
    format_source,
)
from clew.query.catalog.catalog import Catalog
from clew.query.catalog.model import CatalogDataset, CatalogJob
from clew.query.catalog.stats import Interval, daily_intervals, hourly_intervals

_STATES = ("NEW", "RUNNING", "COMPLETED", "ABORTED", "FAILED")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_END = datetime(9999, 1, 1, tzinfo=UTC)
_encode = msgspec.json.Encoder(order=None).encode


def json_response(value: object, status: int = 200) -> MarquezResponse:
    """Create a JSON response."""
    return MarquezResponse(_encode(value), status)


def get_namespaces(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /namespaces`."""
    limit, offset = request.page()
    namespaces = catalog.namespaces()[offset : offset + limit]
    return json_response({"namespaces": [format_namespace(namespace) for namespace in namespaces]})


def get_namespace(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /namespaces/{namespace}`."""
    (name,) = request.path_args
    namespace = next((candidate for candidate in catalog.namespaces() if candidate.name == name), None)
    if namespace is None:
        raise not_found_error("Namespace", name)
    return json_response(format_namespace(namespace))


def get_sources(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /sources`."""
    limit, offset = request.page()
    return json_response({"sources": [format_source(source) for source in catalog.sources()[offset : offset + limit]]})


def get_source(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /sources/{source}`."""
    (name,) = request.path_args
    source = next((candidate for candidate in catalog.sources() if candidate.name == name), None)
    if source is None:
        raise not_found_error("Source", name)
    return json_response(format_source(source))


def get_datasets(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /namespaces/{namespace}/datasets`."""
    (name,) = request.path_args
    datasets = [format_dataset(dataset) for dataset in catalog.datasets(name, *request.page())]
    if not datasets:
        _require_namespace(catalog, name)
    return json_response({"datasets": datasets, "totalCount": catalog.count_datasets(name)})


def get_dataset(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /namespaces/{namespace}/datasets/{dataset}`."""
    return json_response(format_dataset(require_dataset(catalog, request)))


def require_dataset(catalog: Catalog, request: MarquezRequest) -> CatalogDataset:
    """Return the dataset of the path, or raise 404."""
    name = request.path_args[0], request.path_args[1]
    dataset = catalog.dataset(name)
    if dataset is None:
        _require_namespace(catalog, name[0])
        raise not_found_error("Dataset", name[1])
    return dataset


def get_dataset_versions(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /namespaces/{namespace}/datasets/{dataset}/versions`."""
    require_dataset(catalog, request)
    name = request.path_args[0], request.path_args[1]
    versions = [format_dataset_version(version) for version in catalog.dataset_versions(name, *request.page())]
    return json_response({"versions": versions, "totalCount": catalog.count_dataset_versions(name)})


def get_dataset_version(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /namespaces/{namespace}/datasets/{dataset}/versions/{version}`."""
    require_dataset(catalog, request)
    namespace, name, version = request.path_args
    dataset_version = catalog.dataset_version((namespace, name), version)
    if dataset_version is None:
        raise not_found_error("Dataset version", version)
    return json_response(format_dataset_version(dataset_version))


def get_jobs(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /jobs` and `GET /namespaces/{namespace}/jobs`."""
    namespace = request.path_args[0] if request.path_args else None
    states = _states(request)
    jobs = [format_job(job) for job in catalog.jobs(namespace, states, *request.page())]
    return json_response({"jobs": jobs, "totalCount": catalog.count_jobs(namespace, states)})


def get_job(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /namespaces/{namespace}/jobs/{job}`."""
    return json_response(format_job(require_job(catalog, request)))


def require_job(catalog: Catalog, request: MarquezRequest) -> CatalogJob:
    """Return the job of the path, or raise 404."""
    name = request.path_args[0], request.path_args[1]
    job = catalog.job(name)
    if job is None:
        _require_namespace(catalog, name[0])
        raise not_found_error("Job", name[1])
    return job


def get_job_versions(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /namespaces/{namespace}/jobs/{job}/versions`."""
    limit, offset = request.page()
    versions = _job_versions(catalog, request)
    return json_response({"versions": versions[offset : offset + limit]})


def get_job_version(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /namespaces/{namespace}/jobs/{job}/versions/{version}`."""
    version = request.path_args[2]
    job_version = next(
        (candidate for candidate in _job_versions(catalog, request) if candidate.version == version), None
    )
    if job_version is None:
        raise not_found_error("Job version", version)
    return json_response(job_version)


def get_job_runs(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /namespaces/{namespace}/jobs/{job}/runs`."""
    require_job(catalog, request)
    name = request.path_args[0], request.path_args[1]
    runs = [format_run(run) for run in catalog.runs_of_job(name, *request.page())]
    return json_response({"runs": runs, "totalCount": catalog.count_runs(name)})


def get_run(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /jobs/runs/{run}`."""
    (run_id,) = request.path_args
    run = catalog.run(run_id)
    if run is None:
        raise not_found_error("Run", run_id)
    return json_response(format_run(run))


def get_run_facets(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /jobs/runs/{run}/facets`."""
    (run_id,) = request.path_args
    kind = request.enum_param("type", ("RUN", "JOB", "DATASET"))
    if kind == "DATASET":
        return MarquezResponse(b"", 204)
    facets = catalog.run_facets(run_id, kind.lower())
    if facets is None:
        raise not_found_error("Run", run_id)
    return json_response({"runId": run_id, "facets": facets})


def get_tags(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /tags`."""
    limit, offset = request.page()
    return json_response({"tags": catalog.tags()[offset : offset + limit]})


def get_events(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /events/lineage`."""
    order = request.enum_param("sortDirection", ("ASC", "DESC"), "DESC")
    span = request.timestamp_param("after", _EPOCH), request.timestamp_param("before", _END)
    events, total = catalog.events(*span, *request.page(), is_newest_first=order == "DESC")
    return json_response({"events": events, "totalCount": total})


class EventStatsSchema(Struct, frozen=True, rename="camel"):
    """Run events of an interval by type."""

    start_interval: datetime
    end_interval: datetime
    fail: int
    start: int
    complete: int
    abort: int


class CountStatsSchema(Struct, frozen=True, rename="camel"):
    """Number of entities at the end of an interval."""

    start_interval: datetime
    end_interval: datetime
    count: int


def get_event_stats(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /stats/lineage-events`."""
    counts = catalog.event_counts(_intervals(request))
    return json_response(
        [
            EventStatsSchema(
                count.interval.start, count.interval.end, count.fail, count.start, count.complete, count.abort
            )
            for count in counts
        ]
    )


def get_job_stats(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /stats/jobs`."""
    return _entity_stats(catalog, request, "job")


def get_dataset_stats(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /stats/datasets`."""
    return _entity_stats(catalog, request, "dataset")


def get_source_stats(catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
    """`GET /stats/sources`."""
    created = sorted(source.created_at for source in catalog.sources() if source.created_at is not None)
    counts = [
        CountStatsSchema(source.start, source.end, sum(timestamp < source.end for timestamp in created))
        for source in _intervals(request)
    ]
    return json_response(counts)


def _entity_stats(catalog: Catalog, request: MarquezRequest, kind: str) -> MarquezResponse:
    counts = catalog.entity_counts(kind, _intervals(request))
    return json_response([CountStatsSchema(count.interval.start, count.interval.end, count.count) for count in counts])


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


def _require_namespace(catalog: Catalog, name: str) -> None:
    if not catalog.has_namespace(name):
        raise not_found_error("Namespace", name)


def _job_versions(catalog: Catalog, request: MarquezRequest) -> list[JobVersionSchema]:
    job = require_job(catalog, request)
    return [format_job_version(version) for version in catalog.job_versions((job.namespace, job.name))]
