"""Comparison of Marquez with clew: counts, and a sample of jobs, datasets and runs, each difference with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, Protocol

from msgspec import Struct

from clew.data_dir import DataDir
from clew.importer.marquez_api import Document, MarquezServer, quote_path
from clew.importer.marquez_database import EVENTS, Connection, Schema, count_rows
from clew.lake.lake import Lake
from clew.lake.manifest import require_lake
from clew.query.context import QueryResources
from clew.query.entities.catalog import Catalog

Name = tuple[str, str]

_IO_KEYS: Final = ("inputs", "outputs")
_COUNT_REASONS: Final = {
    "events": "Marquez stores an event again when a client sends it again; clew stores it once.",
    "jobs": "clew counts each job under the name in its events; Marquez keeps deleted and renamed ones.",
    "datasets": "clew counts names joined by symlinks each; Marquez keeps deleted ones.",
    "runs": "clew counts a run that is only the parent of others once, under the id in the events.",
    "namespaces": "clew has a namespace as soon as an event, or an owner or description, names it.",
}
_REASONS: Final = {
    ("run", "state"): "Marquez takes the state of the event received last; in clew a terminal state stays.",
    ("run", "started_at"): "Marquez takes the time of the last START or RUNNING event, clew that of the first event.",
    ("run", "ended_at"): "Marquez takes the time of the last terminal event received.",
    ("run", "job"): "Marquez puts the name of the parent before the name of the job.",
    ("job", "inputs"): "Marquez drops the inputs of a job when an event has none, until the run completes.",
    ("job", "outputs"): "Marquez drops the outputs of a job when an event has none, until the run completes.",
    ("job", "tags"): "Tags sent in events are tags in clew.",
    ("dataset", "fields"): "Marquez shows the schema of the last completed run, clew the last one received.",
    ("dataset", "tags"): "Tags sent in events are tags in clew.",
}
_MISSING_REASON: Final = "Not in clew: it has no event, or is newer than the import."


class Facts(Struct, frozen=True):
    """Answers about one job, dataset or run, by field. A run has no namespace, and its id as name."""

    kind: str
    namespace: str
    name: str
    values: Mapping[str, object]

    def __str__(self) -> str:
        return f"{self.namespace}:{self.name}" if self.namespace else self.name


class CountPair(Struct, frozen=True):
    """A number on both sides; the reason, if they differ."""

    name: str
    marquez: int
    clew: int
    reason: str | None = None


class Difference(Struct, frozen=True):
    """Another answer; without a reason, it is not a known one."""

    kind: str
    name: str
    field: str
    marquez: str
    clew: str
    reason: str | None = None


class Comparison(Struct):
    """Result of a comparison."""

    counts: list[CountPair]
    compared: int
    differences: list[Difference]

    @property
    def unexplained(self) -> int:
        """Number of differences without a known reason."""
        return sum(item.reason is None for item in self.differences)


class MarquezFacts(Protocol):
    """What is compared of a Marquez server."""

    def counts(self) -> dict[str, int]:
        """Return the numbers of events and entities."""

    def sample(self, size: int) -> Iterator[Facts]:
        """Yield answers about the newest jobs, datasets and runs."""


def compare_with_marquez(home: DataDir, marquez: MarquezFacts, size: int) -> Comparison:
    """Compare counts, and a sample of each kind of entity."""
    require_lake(home.lake)
    resources = QueryResources(home.index, home.lake)
    try:
        with resources.catalog() as catalog:
            own = _own_counts(home, catalog)
            counts = [
                _compare_counts(name, count, own[name]) for name, count in marquez.counts().items() if name in own
            ]
            comparison = Comparison(counts, 0, [])
            for facts in marquez.sample(size):
                comparison.compared += 1
                comparison.differences += _compare(facts, _own_facts(catalog, facts))
    finally:
        resources.close()
    return comparison


def _compare_counts(name: str, marquez: int, clew: int) -> CountPair:
    if marquez == clew:
        return CountPair(name, marquez, clew)
    return CountPair(name, marquez, clew, _COUNT_REASONS.get(name))


def _compare(facts: Facts, own: Mapping[str, object] | None) -> Iterator[Difference]:
    if own is None:
        yield Difference(facts.kind, str(facts), "", "known", "unknown", _MISSING_REASON)
        return
    for field, value in facts.values.items():
        if not _is_equal(value, own[field]):
            reason = _REASONS.get((facts.kind, field))
            yield Difference(facts.kind, str(facts), field, _text(value), _text(own[field]), reason)


def _is_equal(value: object, other: object) -> bool:
    if isinstance(value, datetime) and isinstance(other, datetime):
        # Marquez has milliseconds in some columns.
        return abs((value - other).total_seconds()) < 0.001
    return value == other or (not value and not other)


def _text(value: object) -> str:
    if isinstance(value, frozenset):
        return ", ".join(sorted(map(_text, value))) or "none"
    if isinstance(value, tuple):
        return ".".join(str(part) for part in value if part)
    return "none" if value is None else str(value)


def _own_counts(home: DataDir, catalog: Catalog) -> dict[str, int]:
    rows = Lake(home.lake).row_counts()
    reader = catalog.reader
    return {
        "events": rows.get("lineage_events", 0) + rows.get("rejected_events", 0),
        "namespaces": len(catalog.namespaces()),
        "jobs": _count(reader.query("select count(*) from all_jobs")),
        "datasets": _count(reader.query("select count(*) from datasets where namespace <> 'clew' or name <> 'notes'")),
        "runs": _count(reader.query("select count(*) from all_runs")),
        "tags": len(catalog.annotations.tag_definitions()),
    }


def _count(rows: Sequence[Any]) -> int:
    return int(rows[0][0])


def _own_facts(catalog: Catalog, facts: Facts) -> Mapping[str, object] | None:
    if facts.kind == "run":
        return _run_values(catalog, facts)
    name = facts.namespace, facts.name
    if facts.kind == "job":
        job = catalog.job(name)
        if job is None:
            return None
        tags = frozenset(tag.key for tag in job.tags)
        return {"inputs": frozenset(job.inputs), "outputs": frozenset(job.outputs), "tags": tags}
    dataset = catalog.dataset(name)
    if dataset is None:
        return None
    columns = frozenset((field.name, (field.type or "").lower()) for field in dataset.fields)
    return {"fields": columns, "tags": frozenset(tag.key for tag in dataset.tags if tag.field is None)}


def _run_values(catalog: Catalog, facts: Facts) -> Mapping[str, object] | None:
    run = catalog.run(facts.name)
    if run is None:
        return None
    expected = facts.values.get("job")
    # Also under its name in Marquez, which starts with that of the parent.
    job = None if expected is None else catalog.job(expected)  # type: ignore[arg-type]
    is_same = job is not None and (job.namespace, job.name) == run.job
    own_job = expected if is_same else run.job
    return {"job": own_job, "state": run.state, "started_at": run.started_at, "ended_at": run.ended_at}


class DatabaseFacts:
    """Facts of a Marquez database."""

    _TABLES: Final = ("namespaces", "jobs", "datasets", "runs", "tags")

    def __init__(self, connection: Connection, schema: Schema) -> None:
        self._connection = connection
        self._schema = schema

    def counts(self) -> dict[str, int]:
        """Return the numbers of rows."""
        counts = count_rows(self._connection, self._schema, (EVENTS, *self._TABLES))
        return {"events": counts.pop(EVENTS, 0), **counts}

    def sample(self, size: int) -> Iterator[Facts]:
        """Yield the newest jobs, datasets and runs."""
        yield from self._jobs(size)
        yield from self._datasets(size)
        yield from self._runs(size)

    def _jobs(self, size: int) -> Iterator[Facts]:
        query = f"select uuid, namespace_name, name, current_version_uuid from jobs where {self._is_visible('jobs')}"  # noqa: S608
        for uuid, namespace, name, version in self._newest(query, size):
            io = self._rows(
                "select m.io_type, d.namespace_name, d.name from job_versions_io_mapping m"
                " join datasets d on d.uuid = m.dataset_uuid where m.job_version_uuid = %s",
                version,
            )
            inputs, outputs = (frozenset(row[1:] for row in io if row[0] == kind) for kind in ("INPUT", "OUTPUT"))
            tags = self._tags("job", uuid) if "jobs_tag_mapping" in self._schema else frozenset()
            yield Facts("job", namespace, name, {"inputs": inputs, "outputs": outputs, "tags": tags})

    def _datasets(self, size: int) -> Iterator[Facts]:
        query = f"select uuid, namespace_name, name from datasets where {self._is_visible('datasets')}"  # noqa: S608
        for uuid, namespace, name in self._newest(query, size):
            rows = self._rows("select name, coalesce(type, '') from dataset_fields where dataset_uuid = %s", uuid)
            fields = frozenset((column, kind.lower()) for column, kind in rows)
            yield Facts("dataset", namespace, name, {"fields": fields, "tags": self._tags("dataset", uuid)})

    def _runs(self, size: int) -> Iterator[Facts]:
        query = """select uuid::text, namespace_name, job_name, current_run_state, started_at, ended_at from runs
            where job_name is not null"""
        for uuid, namespace, job, state, started_at, ended_at in self._newest(query, size):
            times = {"started_at": _utc(started_at), "ended_at": _utc(ended_at)}
            yield Facts("run", "", uuid, {"job": (namespace, job), "state": state or "NEW", **times})

    def _newest(self, query: str, size: int) -> list[Any]:
        return self._rows(f"{query} order by updated_at desc, uuid limit %s", size)

    def _is_visible(self, table: str) -> str:
        return "not coalesce(is_hidden, false)" if "is_hidden" in self._schema.get(table, ()) else "true"

    def _tags(self, kind: str, uuid: object) -> frozenset[str]:
        query = f"""select t.name from {kind}s_tag_mapping m join tags t on t.uuid = m.tag_uuid
            where m.{kind}_uuid = %s"""  # noqa: S608
        return frozenset(name for (name,) in self._rows(query, uuid))

    def _rows(self, query: str, *values: object) -> list[Any]:
        return self._connection.execute(query, values).fetchall()


class ServerFacts:
    """Facts of the API of a Marquez server."""

    def __init__(self, server: MarquezServer) -> None:
        self._server = server

    def counts(self) -> dict[str, int]:
        """Return the totals of the lists."""
        return {"events": self._server.event_page(None, 1)[1], **self._server.counts()}

    def sample(self, size: int) -> Iterator[Facts]:
        """Yield jobs with their latest runs, and datasets, of all namespaces."""
        yield from islice(self._entities("jobs", _job_facts), size)
        yield from islice(self._entities("jobs", _run_facts), size)
        yield from islice(self._entities("datasets", _dataset_facts), size)

    def _entities(self, kind: str, parse: Callable[[Document], Iterator[Facts]]) -> Iterator[Facts]:
        for namespace in self._server.namespaces():
            if not namespace.get("isHidden"):
                for document in self._server.documents(f"namespaces/{quote_path(namespace['name'])}/{kind}", kind):
                    yield from parse(document)


def _job_facts(job: Document) -> Iterator[Facts]:
    io = {key: frozenset((item["namespace"], item["name"]) for item in job.get(key) or []) for key in _IO_KEYS}
    yield Facts("job", job["namespace"], job["name"], {**io, "tags": frozenset(job.get("tags") or [])})


def _run_facts(job: Document) -> Iterator[Facts]:
    for run in job.get("latestRuns") or []:
        times = {"started_at": _parse_time(run.get("startedAt")), "ended_at": _parse_time(run.get("endedAt"))}
        yield Facts("run", "", run["id"], {"state": run["state"], **times})


def _dataset_facts(dataset: Document) -> Iterator[Facts]:
    fields = frozenset((item["name"], (item.get("type") or "").lower()) for item in dataset.get("fields") or [])
    tags = frozenset(dataset.get("tags") or [])
    yield Facts("dataset", dataset["namespace"], dataset["name"], {"fields": fields, "tags": tags})


def _parse_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _utc(time: datetime | None) -> datetime | None:
    return time if time is None or time.tzinfo is not None else time.replace(tzinfo=UTC)
