"""Jobs and their versions as documents."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable

from clew.events.facet_values import text_in, value_of
from clew.index.catalog import CatalogReader
from clew.index.keys import entity
from clew.index.reader import Row
from clew.query.catalog.model import Facets, Job, JobVersion, Name, Run
from clew.query.catalog.notes import Notes
from clew.query.catalog.runs import runs_of
from clew.query.catalog.versions import Versions
from clew.query.moments import moment

LATEST_RUNS = 10


def jobs_of(
    reader: CatalogReader, versions: Versions, notes: Notes, names: Collection[Name], latest_runs: int = LATEST_RUNS
) -> list[Job]:
    """Jobs in the order of their names given, without those that are not known."""
    rows = reader.jobs_of(names)
    latest: dict[Name, list[str]] = reader.latest_runs(rows, latest_runs) if latest_runs else {}
    last = {row["latest_run_uuid"] for row in rows.values() if row["latest_run_uuid"] is not None}
    runs = runs_of(reader, versions, sorted(last.union(*latest.values())))
    facets = reader.facets_of([("job", entity(*name)) for name in rows])
    current = _current_versions(reader, list(rows))
    io = _known_io(reader, [name for name in rows if name not in current])
    made = []
    for name in names:
        if name in rows:
            version = current.get(name)
            inputs, outputs = io[name] if version is None else (version.inputs, version.outputs)
            found = [runs[run] for run in latest.get(name, ())]
            said = facets.get(("job", entity(*name)), {})
            made.append(_job(rows[name], said, notes, version, (inputs, outputs), runs, found))
    return made


def job_versions(reader: CatalogReader, versions: Versions, name: Name) -> list[JobVersion]:
    """The versions of a job, the last made first."""
    found = list(_versions(reader, reader.job_versions_of([name])).values())
    latest = runs_of(reader, versions, [one.run_uuid for one in found if one.run_uuid is not None])
    ordered = sorted(found, key=lambda one: (one.created_at, one.version), reverse=True)
    return [
        JobVersion(
            *name,
            one.version,
            moment(one.created_at),
            one.location,
            one.inputs,
            one.outputs,
            None if one.run_uuid is None else latest[one.run_uuid],
        )
        for one in ordered
    ]


class _Version:
    """A version as it is gathered: its last run tells what it reads and writes, unless it was declared."""

    def __init__(self, row: Row) -> None:
        self.version: str = row["version"]
        self.created_at: int = row["at"]
        self.run_uuid: str | None = None
        self.location: str | None = None
        self.inputs: tuple[Name, ...] = ()
        self.outputs: tuple[Name, ...] = ()
        self.is_declared = False

    def take(self, row: Row) -> None:
        self.location = row["location"]
        if row["run_uuid"] is not None:
            self.run_uuid = row["run_uuid"]
        else:
            self.inputs, self.outputs, self.is_declared = _names(row["inputs"]), _names(row["outputs"]), True


def _versions(reader: CatalogReader, rows: Iterable[Row]) -> dict[tuple[Name, str], _Version]:
    found: dict[tuple[Name, str], _Version] = {}
    for row in rows:
        key = (row["job_namespace"], row["job_name"]), row["version"]
        version = found.get(key)
        if version is None:
            version = found[key] = _Version(row)
        version.take(row)
    _take_io(reader, found.values())
    return found


def _take_io(reader: CatalogReader, versions: Iterable[_Version]) -> None:
    by_run = {one.run_uuid: one for one in versions if one.run_uuid is not None and not one.is_declared}
    for run_uuid, rows in reader.io_of(by_run).items():
        version = by_run[run_uuid]
        version.inputs, version.outputs = _sides(rows)


def _current_versions(reader: CatalogReader, names: Collection[Name]) -> dict[Name, _Version]:
    last: dict[Name, Row] = {}
    said: defaultdict[Name, list[Row]] = defaultdict(list)
    for row in reader.job_versions_of(names):
        name = row["job_namespace"], row["job_name"]
        last[name] = row
        said[name].append(row)
    rows = (row for name, found in said.items() for row in found if row["version"] == last[name]["version"])
    return {name: version for (name, _), version in _versions(reader, rows).items()}


def _known_io(reader: CatalogReader, names: Collection[Name]) -> dict[Name, tuple[tuple[Name, ...], tuple[Name, ...]]]:
    """What jobs that have no version yet are said to read and write."""
    found: dict[Name, list[Row]] = {name: [] for name in names}
    for row in reader.job_io(names) if names else ():
        found[row["job_namespace"], row["job_name"]].append(row)
    return {name: _sides(rows) for name, rows in found.items()}


def _sides(rows: Iterable[Row]) -> tuple[tuple[Name, ...], tuple[Name, ...]]:
    inputs, outputs = set[Name](), set[Name]()
    for row in rows:
        side = inputs if row["direction"] == "INPUT" else outputs
        side.add((row["dataset_namespace"], row["dataset_name"]))
    return tuple(sorted(inputs)), tuple(sorted(outputs))


def _names(listed: str) -> tuple[Name, ...]:
    return tuple((one["namespace"], one["name"]) for one in json.loads(listed))


def _job(
    row: Row,
    facets: Facets,
    notes: Notes,
    version: _Version | None,
    io: tuple[tuple[Name, ...], tuple[Name, ...]],
    runs: dict[str, Run],
    latest: list[Run],
) -> Job:
    name = row["namespace"], row["name"]
    has_parent = row["parent_job_name"] is not None and row["parent_job_namespace"] is not None
    return Job(
        *name,
        parent=(row["parent_job_namespace"], row["parent_job_name"]) if has_parent else None,
        processing_type=row["processing_type"],
        labels=tuple(label for label in (row["job_type"], row["integration"]) if label),
        created_at=moment(row["first_event_at"]),
        updated_at=moment(row["last_event_at"]),
        inputs=io[0],
        outputs=io[1],
        location=_location(facets) or (row["location"] if version is None else version.location),
        description=row["description"],
        latest_run=runs.get(row["latest_run_uuid"]),
        latest_runs=tuple(latest),
        current_version=None if version is None else version.version,
        tags=notes.tags_on("job", name, facets).whole,
        facets=facets,
    )


def _location(facets: Facets) -> str | None:
    facet = facets.get("sourceCodeLocation")
    return None if facet is None else text_in(value_of(bytes(facet)), "url")
