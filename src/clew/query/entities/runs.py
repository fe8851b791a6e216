"""Runs and jobs of the catalog, and lists of runs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec
from msgspec import Struct

from clew.events.facets import decode_facet, get_str
from clew.index.backends.base import Row
from clew.index.encoding import entity_key
from clew.index.queries.entities import Facets, Name
from clew.index.queries.reader import IndexReader
from clew.index.queries.records import RunIoRecord, RunRecord
from clew.query.entities.annotations import NO_ANNOTATIONS, Annotations, read_annotations
from clew.query.entities.model import (
    CatalogJob,
    CatalogRun,
    JobVersion,
    ParentRun,
    RunDataset,
    VersionCache,
    make_version_id,
)
from clew.query.model import EPOCH, State, from_epoch_micros
from clew.query.names import UnknownNameError, require_run
from clew.query.quality import QualityCounts, load_run_assertions

_OUTPUT = "OUTPUT"
# Inputs and outputs listed in the description of a job; lineage queries return all of them.
MAX_NEIGHBOURS: Final = 100


def describe_run(reader: IndexReader, run_uuid: str, *, with_io_facets: bool = False) -> CatalogRun:
    """Load a run with its facets, inputs and outputs; raise if it does not exist."""
    records = {run_uuid: require_run(reader, run_uuid)}
    run = load_run_io(reader, records, None, with_io_facets=with_io_facets)[run_uuid]
    return msgspec.structs.replace(run, assertions=load_run_assertions(reader, [run_uuid]).get(run_uuid, ()))


def load_runs(
    reader: IndexReader, run_uuids: Collection[str], versions: VersionCache | None = None
) -> dict[str, CatalogRun]:
    """Load runs by id with facets, inputs and outputs."""
    return load_run_io(reader, reader.runs_of(run_uuids), versions)


def load_run_io(
    reader: IndexReader, rows: dict[str, RunRecord], versions: VersionCache | None, *, with_io_facets: bool = True
) -> dict[str, CatalogRun]:
    """Load the inputs and outputs of runs: with `versions`, version ids, else row counts and schemas."""
    io_by_run = reader.io_of(rows, with_facets=with_io_facets, with_counts=versions is None)
    if versions is not None:
        inputs = (record for io in io_by_run.values() for record in io if record[1] != _OUTPUT)
        versions.load({(namespace, name) for _, _, namespace, name, *_ in inputs})
    return {
        run_uuid: to_run(
            row, *_split_run_io(reader, versions, row, io_by_run.get(run_uuid, ())), reader.decode_facets(row.body)
        )
        for run_uuid, row in rows.items()
    }


def to_run(
    row: RunRecord,
    inputs: tuple[RunDataset, ...] = (),
    outputs: tuple[RunDataset, ...] = (),
    facets: Facets | None = None,
) -> CatalogRun:
    """Convert a run record; in a list, runs have no inputs, outputs and facets."""
    return CatalogRun(
        row.run_uuid,
        None if row.job_name is None else (row.job_namespace or "", row.job_name),
        row.state,
        from_epoch_micros(row.first_event_at),
        from_epoch_micros(row.last_event_at),
        from_epoch_micros(row.nominal_start_at),
        from_epoch_micros(row.nominal_end_at),
        from_epoch_micros(row.started_at),
        from_epoch_micros(row.ended_at),
        ParentRun(row.parent_run_uuid, row.parent_job_namespace, row.parent_job_name),
        row.root_run_uuid,
        row.job_version,
        row.error_message,
        row.session_id,
        bool(row.is_placeholder),
        inputs,
        outputs,
        facets or {},
    )


def _split_run_io(
    reader: IndexReader, versions: VersionCache | None, run: RunRecord, io: Collection[RunIoRecord]
) -> tuple[tuple[RunDataset, ...], tuple[RunDataset, ...]]:
    """Return the inputs and outputs of a run; outputs have a version id only if it completed."""
    inputs, outputs = list[RunDataset](), list[RunDataset]()
    for record in io:
        _, direction, namespace, name, version, row_count, is_implied, schema_id, bodies = record
        version_id = None
        if direction == _OUTPUT:
            if run.state == "COMPLETED":
                version_id = make_version_id((namespace, name), version, run.run_uuid)
        elif versions is not None:
            read = versions.version_read_by(run, (namespace, name), version)
            version_id = None if read is None else read.id
        (outputs if direction == _OUTPUT else inputs).append(
            RunDataset(
                namespace,
                name,
                version or None,
                version_id,
                row_count,
                schema_id,
                bool(is_implied),
                reader.decode_facets(*bodies),
            )
        )
    return tuple(inputs), tuple(outputs)


RunSelection = Literal["recent", "failed", "slow"]
# The slowest runs are searched among this many newest ones, to bound the scan.
SLOW_SAMPLE_SIZE: Final = 20_000


class JobRunSummary(Struct, frozen=True):
    """A run in a list; `session_id` is set for notebook sessions, `tests` if the run has results of tests."""

    run_uuid: str
    job_namespace: str | None
    job_name: str | None
    state: State
    started_at: datetime | None
    ended_at: datetime | None
    duration_ms: float | None
    error: str | None
    session_id: str | None
    tests: QualityCounts | None


def list_job_runs(
    index: IndexReader, selection: RunSelection, since: datetime | None, limit: int
) -> list[JobRunSummary]:
    """List runs that started at `since` or later, newest or slowest first."""
    since_micros = 0 if since is None else (since - EPOCH) // timedelta(microseconds=1)
    if selection == "slow":
        records = index.slow_runs(since_micros, SLOW_SAMPLE_SIZE, limit)
    else:
        records = index.top_level_runs(since_micros, limit, is_failed=selection == "failed")
    assertions = load_run_assertions(index, [record.run_uuid for record in records])
    return [
        _job_run_summary(to_run(record), QualityCounts.of(assertions.get(record.run_uuid, ()))) for record in records
    ]


def _job_run_summary(run: CatalogRun, tests: QualityCounts | None) -> JobRunSummary:
    return JobRunSummary(
        run_uuid=run.id,
        job_namespace=None if run.job is None else run.job[0],
        job_name=None if run.job is None else run.job[1],
        state=run.state,
        started_at=run.started_at,
        ended_at=run.ended_at,
        duration_ms=run.duration_ms,
        error=run.error,
        session_id=run.session_id,
        tests=tests,
    )


LATEST_RUNS = 10


def describe_job(reader: IndexReader, name: Name) -> CatalogJob:
    """Load a job with its latest run and the datasets that it reads and writes; raise if it does not exist."""
    jobs = load_jobs(reader, [name], annotations=read_annotations(reader), latest_runs=0)
    if not jobs:
        raise UnknownNameError.of_entity(reader, "job", name[1])
    reads, writes = (
        tuple(
            (row["dataset_namespace"], row["dataset_name"])
            for row in reader.datasets_used_by(name, direction, MAX_NEIGHBOURS, by_name=True)
        )
        for direction in ("INPUT", "OUTPUT")
    )
    return msgspec.structs.replace(jobs[0], reads=reads, writes=writes)


def load_jobs(
    reader: IndexReader,
    names: Collection[Name],
    versions: VersionCache | None = None,
    annotations: Annotations | None = None,
    latest_runs: int = LATEST_RUNS,
) -> list[CatalogJob]:
    """Load jobs in the given order; unknown ones are left out.

    Without `versions`, jobs have no versions, inputs and outputs, and their runs have no inputs and outputs.
    """
    rows = reader.jobs_of(names)
    latest = {name: _latest_runs(reader, name, latest_runs) if latest_runs else [] for name in rows}
    records = {record.run_uuid: record for job_records in latest.values() for record in job_records}
    last = {row["latest_run_uuid"] for row in rows.values()} - {None, *records}
    records |= reader.runs_of(last) if last else {}
    if versions is None:
        runs, current, io = {run_uuid: to_run(record) for run_uuid, record in records.items()}, {}, {}
    else:
        runs, current = load_run_io(reader, records, versions), _current_versions(reader, list(rows))
        io = {name: _io_without_version(reader, name) for name in rows if name not in current}
    facets = reader.facets_of([("job", entity_key(*name)) for name in rows])
    return [
        _job(
            rows[name],
            facets.get(("job", entity_key(*name)), {}),
            annotations or NO_ANNOTATIONS,
            current.get(name),
            io.get(name, ((), ())),
            runs,
            [runs[record.run_uuid] for record in latest[name]],
        )
        for name in names
        if name in rows
    ]


def _latest_runs(reader: IndexReader, name: Name, limit: int) -> list[RunRecord]:
    """Return the latest runs of a job, or else those that other runs reference."""
    return reader.runs_of_job(name, limit, with_facets=True) or reader.referenced_runs_of_job(name, limit)


def load_job_versions(reader: IndexReader, versions: VersionCache, name: Name) -> list[JobVersion]:
    """Load the versions of a job, newest first."""
    job_versions = list(_versions(reader, reader.job_versions_of([name])).values())
    latest = load_runs(reader, [version.run_uuid for version in job_versions if version.run_uuid is not None], versions)
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
            self.inputs, self.outputs = _parse_names(row["inputs"]), _parse_names(row["outputs"])
            self.is_declared = True


def _versions(reader: IndexReader, rows: Iterable[Row]) -> dict[tuple[Name, str], _Version]:
    versions: dict[tuple[Name, str], _Version] = {}
    for row in rows:
        key = (row["job_namespace"], row["job_name"]), row["version"]
        if key not in versions:
            versions[key] = _Version(row)
        versions[key].add(row)
    _set_io(reader, versions.values())
    return versions


def _set_io(reader: IndexReader, versions: Iterable[_Version]) -> None:
    by_run = {
        version.run_uuid: version for version in versions if version.run_uuid is not None and not version.is_declared
    }
    for run_uuid, io in reader.io_of(by_run).items():
        version = by_run[run_uuid]
        version.inputs, version.outputs = _split_job_io(record[1:4] for record in io)


def _current_versions(reader: IndexReader, names: Collection[Name]) -> dict[Name, _Version]:
    last: dict[Name, Row] = {}
    by_name: defaultdict[Name, list[Row]] = defaultdict(list)
    for row in reader.job_versions_of(names):
        name = row["job_namespace"], row["job_name"]
        last[name] = row
        by_name[name].append(row)
    rows = (row for name, own in by_name.items() for row in own if row["version"] == last[name]["version"])
    return {name: version for (name, _), version in _versions(reader, rows).items()}


def _io_without_version(reader: IndexReader, name: Name) -> tuple[tuple[Name, ...], tuple[Name, ...]]:
    """Return the inputs and outputs of a job that has no version yet."""
    rows = (row for direction in ("INPUT", "OUTPUT") for row in reader.datasets_used_by(name, direction))
    return _split_job_io((row["direction"], row["dataset_namespace"], row["dataset_name"]) for row in rows)


def _split_job_io(io: Iterable[tuple[str, str, str]]) -> tuple[tuple[Name, ...], tuple[Name, ...]]:
    inputs, outputs = set[Name](), set[Name]()
    for direction, namespace, name in io:
        (outputs if direction == _OUTPUT else inputs).add((namespace, name))
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
        type=row["job_type"],
        integration=row["integration"],
        processing_type=row["processing_type"],
        created_at=from_epoch_micros(row["first_event_at"]),
        updated_at=from_epoch_micros(row["last_event_at"]),
        description=row["description"],
        latest_run=runs.get(row["latest_run_uuid"]),
        tags=annotations.tags_on("job", name, facets),
        facets=facets,
        is_placeholder=bool(row["is_placeholder"]),
        location=_location(facets) or (row["source_code_location"] if version is None else version.location),
        inputs=io[0] if version is None else version.inputs,
        outputs=io[1] if version is None else version.outputs,
        latest_runs=tuple(latest),
        current_version=None if version is None else version.version,
    )


def _location(facets: Facets) -> str | None:
    facet = facets.get("sourceCodeLocation")
    return None if facet is None else get_str(decode_facet(bytes(facet)), "url")
