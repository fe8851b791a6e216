"""What there is: namespaces, sources, jobs, runs, datasets, their versions, tags, events and counts."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from clew.api.marquez.requests import Answer, Asked, not_found
from clew.api.marquez.shapes import (
    JobVersionShape,
    dataset_shape,
    dataset_version_shape,
    job_shape,
    job_version_shape,
    namespace_shape,
    run_shape,
    source_shape,
)
from clew.query.catalog.catalog import Catalog
from clew.query.catalog.model import Dataset, Job
from clew.query.catalog.stats import Interval, last_days, last_hours

_STATES = ("NEW", "RUNNING", "COMPLETED", "ABORTED", "FAILED")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_END = datetime(9999, 1, 1, tzinfo=UTC)
_encode = msgspec.json.Encoder(order=None).encode


def answer(value: object, status: int = 200) -> Answer:
    """A value as JSON."""
    return Answer(_encode(value), status)


def namespaces(catalog: Catalog, asked: Asked) -> Answer:
    """`GET /namespaces`."""
    limit, offset = asked.page()
    found = catalog.namespaces()[offset : offset + limit]
    return answer({"namespaces": [namespace_shape(one) for one in found]})


def namespace(catalog: Catalog, asked: Asked) -> Answer:
    """`GET /namespaces/{namespace}`."""
    (name,) = asked.parts
    found = next((one for one in catalog.namespaces() if one.name == name), None)
    if found is None:
        raise not_found("Namespace", name)
    return answer(namespace_shape(found))


def sources(catalog: Catalog, asked: Asked) -> Answer:
    """`GET /sources`."""
    limit, offset = asked.page()
    return answer({"sources": [source_shape(one) for one in catalog.sources()[offset : offset + limit]]})


def source(catalog: Catalog, asked: Asked) -> Answer:
    """`GET /sources/{source}`."""
    (name,) = asked.parts
    found = next((one for one in catalog.sources() if one.name == name), None)
    if found is None:
        raise not_found("Source", name)
    return answer(source_shape(found))


def datasets(catalog: Catalog, asked: Asked) -> Answer:
    """`GET /namespaces/{namespace}/datasets`."""
    (name,) = asked.parts
    found = [dataset_shape(one) for one in catalog.datasets(name, *asked.page())]
    if not found:
        _require_namespace(catalog, name)
    return answer({"datasets": found, "totalCount": catalog.count_datasets(name)})


def dataset(catalog: Catalog, asked: Asked) -> Answer:
    """`GET /namespaces/{namespace}/datasets/{dataset}`."""
    return answer(dataset_shape(required_dataset(catalog, asked)))


def required_dataset(catalog: Catalog, asked: Asked) -> Dataset:
    """The dataset that a path names."""
    name = asked.parts[0], asked.parts[1]
    found = catalog.dataset(name)
    if found is None:
        _require_namespace(catalog, name[0])
        raise not_found("Dataset", name[1])
    return found


def dataset_versions(catalog: Catalog, asked: Asked) -> Answer:
    """`GET /namespaces/{namespace}/datasets/{dataset}/versions`."""
    required_dataset(catalog, asked)
    name = asked.parts[0], asked.parts[1]
    found = [dataset_version_shape(one) for one in catalog.dataset_versions(name, *asked.page())]
    return answer({"versions": found, "totalCount": catalog.count_dataset_versions(name)})


def dataset_version(catalog: Catalog, asked: Asked) -> Answer:
    """`GET /namespaces/{namespace}/datasets/{dataset}/versions/{version}`."""
    required_dataset(catalog, asked)
    namespace, name, version = asked.parts
    found = catalog.dataset_version((namespace, name), version)
    if found is None:
        raise not_found("Dataset version", version)
    return answer(dataset_version_shape(found))


def jobs(catalog: Catalog, asked: Asked) -> Answer:
    """`GET /jobs` and `GET /namespaces/{namespace}/jobs`."""
    namespace = asked.parts[0] if asked.parts else None
    states = _states(asked)
    found = [job_shape(one) for one in catalog.jobs(namespace, states, *asked.page())]
    return answer({"jobs": found, "totalCount": catalog.count_jobs(namespace, states)})


def job(catalog: Catalog, asked: Asked) -> Answer:
    """`GET /namespaces/{namespace}/jobs/{job}`."""
    return answer(job_shape(required_job(catalog, asked)))


def required_job(catalog: Catalog, asked: Asked) -> Job:
    """The job that a path names."""
    name = asked.parts[0], asked.parts[1]
    found = catalog.job(name)
    if found is None:
        _require_namespace(catalog, name[0])
        raise not_found("Job", name[1])
    return found


def job_versions(catalog: Catalog, asked: Asked) -> Answer:
    """`GET /namespaces/{namespace}/jobs/{job}/versions`."""
    limit, offset = asked.page()
    found = _job_versions(catalog, asked)
    return answer({"versions": found[offset : offset + limit]})


def job_version(catalog: Catalog, asked: Asked) -> Answer:
    """`GET /namespaces/{namespace}/jobs/{job}/versions/{version}`."""
    version = asked.parts[2]
    found = next((one for one in _job_versions(catalog, asked) if one.version == version), None)
    if found is None:
        raise not_found("Job version", version)
    return answer(found)


def runs(catalog: Catalog, asked: Asked) -> Answer:
    """`GET /namespaces/{namespace}/jobs/{job}/runs`."""
    required_job(catalog, asked)
    name = asked.parts[0], asked.parts[1]
    found = [run_shape(one) for one in catalog.runs_of_job(name, *asked.page())]
    return answer({"runs": found, "totalCount": catalog.count_runs(name)})


def run(catalog: Catalog, asked: Asked) -> Answer:
    """`GET /jobs/runs/{run}`."""
    (run_id,) = asked.parts
    found = catalog.run(run_id)
    if found is None:
        raise not_found("Run", run_id)
    return answer(run_shape(found))


def run_facets(catalog: Catalog, asked: Asked) -> Answer:
    """`GET /jobs/runs/{run}/facets`."""
    (run_id,) = asked.parts
    kind = asked.choice("type", ("RUN", "JOB", "DATASET"))
    if kind == "DATASET":
        return Answer(b"", 204)
    found = catalog.run_facets(run_id, kind.lower())
    if found is None:
        raise not_found("Run", run_id)
    return answer({"runId": run_id, "facets": found})


def tags(catalog: Catalog, asked: Asked) -> Answer:
    """`GET /tags`."""
    limit, offset = asked.page()
    return answer({"tags": catalog.tags()[offset : offset + limit]})


def events(catalog: Catalog, asked: Asked) -> Answer:
    """`GET /events/lineage`."""
    order = asked.choice("sortDirection", ("ASC", "DESC"), "DESC")
    span = asked.moment("after", _EPOCH), asked.moment("before", _END)
    found, total = catalog.events(*span, *asked.page(), last_first=order == "DESC")
    return answer({"events": found, "totalCount": total})


class EventStatistic(Struct, frozen=True, rename="camel"):
    """Events of runs in an interval."""

    start_interval: datetime
    end_interval: datetime
    fail: int
    start: int
    complete: int
    abort: int


class Statistic(Struct, frozen=True, rename="camel"):
    """How many there were at the end of an interval."""

    start_interval: datetime
    end_interval: datetime
    count: int


def event_stats(catalog: Catalog, asked: Asked) -> Answer:
    """`GET /stats/lineage-events`."""
    counts = catalog.event_counts(_intervals(asked))
    return answer(
        [
            EventStatistic(one.interval.start, one.interval.end, one.fail, one.start, one.complete, one.abort)
            for one in counts
        ]
    )


def job_stats(catalog: Catalog, asked: Asked) -> Answer:
    """`GET /stats/jobs`."""
    return _entity_stats(catalog, asked, "job")


def dataset_stats(catalog: Catalog, asked: Asked) -> Answer:
    """`GET /stats/datasets`."""
    return _entity_stats(catalog, asked, "dataset")


def source_stats(catalog: Catalog, asked: Asked) -> Answer:
    """`GET /stats/sources`."""
    made = sorted(one.created_at for one in catalog.sources() if one.created_at is not None)
    counts = [Statistic(one.start, one.end, sum(moment < one.end for moment in made)) for one in _intervals(asked)]
    return answer(counts)


def _entity_stats(catalog: Catalog, asked: Asked, kind: str) -> Answer:
    counts = catalog.entity_counts(kind, _intervals(asked))
    return answer([Statistic(one.interval.start, one.interval.end, one.count) for one in counts])


def _intervals(asked: Asked) -> list[Interval]:
    now = datetime.now(UTC)
    if asked.choice("period", ("DAY", "WEEK")) == "DAY":
        return last_hours(now)
    return last_days(now, asked.zone("timezone"))


def _states(asked: Asked) -> list[str] | None:
    given = asked.params.get("lastRunStates")
    if not given:
        return None
    found = [state.upper() for state in given]
    for state in found:
        Asked((), f"lastRunStates={state}".encode()).choice("lastRunStates", _STATES)
    return found


def _require_namespace(catalog: Catalog, name: str) -> None:
    if not catalog.has_namespace(name):
        raise not_found("Namespace", name)


def _job_versions(catalog: Catalog, asked: Asked) -> list[JobVersionShape]:
    name = required_job(catalog, asked)
    return [job_version_shape(one) for one in catalog.job_versions((name.namespace, name.name))]
