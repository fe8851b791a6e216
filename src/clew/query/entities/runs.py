"""Runs and jobs of the catalog, and lists of runs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

from clew.events.facets import decode_facet, get_str
from clew.index.backends.base import Row
from clew.index.encoding import entity_key
from clew.index.queries.catalog import EntityQueries
from clew.index.queries.entities import RunIoRecord, RunRecord, list_slow_runs, list_top_level_runs
from clew.index.queries.reader import IndexReader
from clew.query.entities.annotations import Annotations
from clew.query.entities.model import (
    CatalogJob,
    CatalogRun,
    Facets,
    JobVersion,
    Name,
    ParentRun,
    RunDataset,
    VersionCache,
    make_version_id,
)
from clew.query.model import EPOCH, State, from_epoch_micros

_OUTPUT = "OUTPUT"


def load_runs(reader: EntityQueries, versions: VersionCache, run_uuids: Collection[str]) -> dict[str, CatalogRun]:
    """Load runs by id, with facets, inputs and outputs."""
    rows = reader.runs_of(run_uuids)
    io_by_run = reader.io_with_facets(rows)
    inputs = (record for io in io_by_run.values() for record in io if record[1] != _OUTPUT)
    versions.load({(namespace, name) for _, _, namespace, name, *_ in inputs})
    return {run_uuid: _run(reader, versions, row, io_by_run.get(run_uuid, ())) for run_uuid, row in rows.items()}


def _run(reader: EntityQueries, versions: VersionCache, row: RunRecord, io: Collection[RunIoRecord]) -> CatalogRun:
    inputs, outputs = _split_run_io(reader, versions, row, io)
    return CatalogRun(
        row.run_uuid,
        None if row.job_namespace is None or row.job_name is None else (row.job_namespace, row.job_name),
        row.state,
        from_epoch_micros(row.first_event_at),
        from_epoch_micros(row.last_event_at),
        from_epoch_micros(row.nominal_start_at),
        from_epoch_micros(row.nominal_end_at),
        from_epoch_micros(row.started_at),
        from_epoch_micros(row.ended_at),
        ParentRun(row.parent_run_uuid, row.parent_job_namespace, row.parent_job_name),
        row.job_version,
        tuple(inputs),
        tuple(outputs),
        reader.decode_facets(row.body),
    )


def _split_run_io(
    reader: EntityQueries, versions: VersionCache, run: RunRecord, io: Collection[RunIoRecord]
) -> tuple[list[RunDataset], list[RunDataset]]:
    """Return the inputs and outputs of a run; outputs have a version only if it completed."""
    inputs, outputs = [], []
    is_completed = run.state == "COMPLETED"
    versioned = {record[1:4] for record in io if record[4]}
    for record in io:
        _, direction, namespace, name, version, body = record
        if not version and record[1:4] in versioned:
            # Reported before the version was known; the versioned record replaces it.
            continue
        if direction == _OUTPUT:
            written = make_version_id((namespace, name), version, run.run_uuid) if is_completed else None
            outputs.append(RunDataset(namespace, name, written, reader.decode_facets(body)))
        else:
            read = versions.version_read_by(run, (namespace, name), version)
            inputs.append(RunDataset(namespace, name, None if read is None else read.id, reader.decode_facets(body)))
    return inputs, outputs


RunSelection = Literal["recent", "failed", "slow"]
# The slowest runs are searched among this many newest ones, to bound the scan.
SLOW_SAMPLE_SIZE: Final = 20_000


class JobRunSummary(Struct, frozen=True):
    """A run in a list; `session_id` is set for notebook sessions."""

    run_uuid: str
    job_namespace: str | None
    job_name: str | None
    state: State
    started_at: datetime | None
    ended_at: datetime | None
    duration_ms: float | None
    error: str | None
    session_id: str | None


def list_job_runs(
    index: IndexReader, selection: RunSelection, since: datetime | None, limit: int
) -> list[JobRunSummary]:
    """List runs that started at `since` or later, newest or slowest first."""
    since_micros = 0 if since is None else (since - EPOCH) // timedelta(microseconds=1)
    if selection == "slow":
        return [_job_run_summary(row) for row in list_slow_runs(index, since_micros, SLOW_SAMPLE_SIZE, limit)]
    return [
        _job_run_summary(row)
        for row in list_top_level_runs(index, since_micros, limit, is_failed=selection == "failed")
    ]


def _job_run_summary(row: Row) -> JobRunSummary:
    has_duration = row["started_at"] is not None and row["ended_at"] is not None
    return JobRunSummary(
        run_uuid=row["run_uuid"],
        job_namespace=row["job_namespace"],
        job_name=row["job_name"],
        state=row["state"],
        started_at=from_epoch_micros(row["started_at"]),
        ended_at=from_epoch_micros(row["ended_at"]),
        duration_ms=(row["ended_at"] - row["started_at"]) / 1000 if has_duration else None,
        error=row["error_message"],
        session_id=row["session_id"],
    )


LATEST_RUNS = 10


def load_jobs(
    reader: EntityQueries,
    versions: VersionCache,
    annotations: Annotations,
    names: Collection[Name],
    latest_runs: int = LATEST_RUNS,
) -> list[CatalogJob]:
    """Load jobs in the given order; unknown ones are left out."""
    rows = reader.jobs_of(names)
    latest: dict[Name, list[str]] = reader.latest_runs(rows, latest_runs) if latest_runs else {}
    last = {row["latest_run_uuid"] for row in rows.values() if row["latest_run_uuid"] is not None}
    runs = load_runs(reader, versions, sorted(last.union(*latest.values())))
    facets = reader.facets_of([("job", entity_key(*name)) for name in rows])
    current = _current_versions(reader, list(rows))
    io = _io_without_version(reader, [name for name in rows if name not in current])
    jobs = []
    for name in names:
        if name in rows:
            version = current.get(name)
            inputs, outputs = io[name] if version is None else (version.inputs, version.outputs)
            own_runs = [runs[run] for run in latest.get(name, ())]
            own_facets = facets.get(("job", entity_key(*name)), {})
            jobs.append(_job(rows[name], own_facets, annotations, version, (inputs, outputs), runs, own_runs))
    return jobs


def load_job_versions(reader: EntityQueries, versions: VersionCache, name: Name) -> list[JobVersion]:
    """Load the versions of a job, newest first."""
    job_versions = list(_versions(reader, reader.job_versions_of([name])).values())
    latest = load_runs(reader, versions, [version.run_uuid for version in job_versions if version.run_uuid is not None])
    ordered = sorted(job_versions, key=lambda version: (version.created_at, version.version), reverse=True)
    return [
        JobVersion(
            *name,
            version.version,
            from_epoch_micros(version.created_at),
            version.location,
            version.inputs,
            version.outputs,
            None if version.run_uuid is None else latest[version.run_uuid],
        )
        for version in ordered
    ]


class _Version:
    """A job version under construction. Its inputs and outputs are those of its latest run, unless declared."""

    def __init__(self, row: Row) -> None:
        self.version: str = row["version"]
        self.created_at: int = row["observed_at"]
        self.run_uuid: str | None = None
        self.location: str | None = None
        self.inputs: tuple[Name, ...] = ()
        self.outputs: tuple[Name, ...] = ()
        self.is_declared = False

    def add(self, row: Row) -> None:
        self.location = row["source_code_location"]
        if row["run_uuid"] is not None:
            self.run_uuid = row["run_uuid"]
        else:
            self.inputs, self.outputs, self.is_declared = (
                _parse_names(row["inputs"]),
                _parse_names(row["outputs"]),
                True,
            )


def _versions(reader: EntityQueries, rows: Iterable[Row]) -> dict[tuple[Name, str], _Version]:
    versions: dict[tuple[Name, str], _Version] = {}
    for row in rows:
        key = (row["job_namespace"], row["job_name"]), row["version"]
        version = versions.get(key)
        if version is None:
            version = versions[key] = _Version(row)
        version.add(row)
    _set_io(reader, versions.values())
    return versions


def _set_io(reader: EntityQueries, versions: Iterable[_Version]) -> None:
    by_run = {
        version.run_uuid: version for version in versions if version.run_uuid is not None and not version.is_declared
    }
    for run_uuid, rows in reader.io_of(by_run).items():
        version = by_run[run_uuid]
        version.inputs, version.outputs = _split_job_io(rows)


def _current_versions(reader: EntityQueries, names: Collection[Name]) -> dict[Name, _Version]:
    last: dict[Name, Row] = {}
    by_name: defaultdict[Name, list[Row]] = defaultdict(list)
    for row in reader.job_versions_of(names):
        name = row["job_namespace"], row["job_name"]
        last[name] = row
        by_name[name].append(row)
    rows = (row for name, own in by_name.items() for row in own if row["version"] == last[name]["version"])
    return {name: version for (name, _), version in _versions(reader, rows).items()}


def _io_without_version(
    reader: EntityQueries, names: Collection[Name]
) -> dict[Name, tuple[tuple[Name, ...], tuple[Name, ...]]]:
    """Return the inputs and outputs of jobs that have no version yet."""
    rows_by_name: dict[Name, list[Row]] = {name: [] for name in names}
    for row in reader.job_io(names) if names else ():
        rows_by_name[row["job_namespace"], row["job_name"]].append(row)
    return {name: _split_job_io(rows) for name, rows in rows_by_name.items()}


def _split_job_io(rows: Iterable[Row]) -> tuple[tuple[Name, ...], tuple[Name, ...]]:
    inputs, outputs = set[Name](), set[Name]()
    for row in rows:
        names = inputs if row["direction"] == "INPUT" else outputs
        names.add((row["dataset_namespace"], row["dataset_name"]))
    return tuple(sorted(inputs)), tuple(sorted(outputs))


def _parse_names(text: str) -> tuple[Name, ...]:
    return tuple((name["namespace"], name["name"]) for name in json.loads(text))


def _job(
    row: Row,
    facets: Facets,
    annotations: Annotations,
    version: _Version | None,
    io: tuple[tuple[Name, ...], tuple[Name, ...]],
    runs: dict[str, CatalogRun],
    latest: list[CatalogRun],
) -> CatalogJob:
    name = row["namespace"], row["name"]
    has_parent = row["parent_job_name"] is not None and row["parent_job_namespace"] is not None
    return CatalogJob(
        *name,
        parent=(row["parent_job_namespace"], row["parent_job_name"]) if has_parent else None,
        processing_type=row["processing_type"],
        labels=tuple(label for label in (row["job_type"], row["integration"]) if label),
        created_at=from_epoch_micros(row["first_event_at"]),
        updated_at=from_epoch_micros(row["last_event_at"]),
        inputs=io[0],
        outputs=io[1],
        location=_location(facets) or (row["source_code_location"] if version is None else version.location),
        description=row["description"],
        latest_run=runs.get(row["latest_run_uuid"]),
        latest_runs=tuple(latest),
        current_version=None if version is None else version.version,
        tags=annotations.tags_on("job", name, facets).on_entity,
        facets=facets,
    )


def _location(facets: Facets) -> str | None:
    facet = facets.get("sourceCodeLocation")
    return None if facet is None else get_str(decode_facet(bytes(facet)), "url")
