"""What runs and jobs read and write after a list of events."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from tests.reference.events import Dataset, Event, Facets, Name, in_turn, is_deleted, members, opened
from tests.reference.lineage import Row, counting, entries_of, implied_inputs

ROW_COUNTS = {"outputStatistics", "inputStatistics", "dataQualityMetrics", "columnMetrics"}


@dataclass(frozen=True)
class Use:
    """That an event names a dataset as read or written; `dataset` is None if only its lineage does."""

    event: Event
    direction: str
    name: Name
    version: str | None
    dataset: Dataset | None


def uses(events: list[Event]) -> list[Use]:
    found = []
    for event in events:
        found += [Use(event, "INPUT", dataset.key, dataset.version, dataset) for dataset in event.inputs]
        found += [Use(event, "OUTPUT", dataset.key, dataset.version, dataset) for dataset in event.outputs]
        found += [Use(event, "INPUT", name, None, None) for name in sorted(implied_inputs(event))]
    return found


def run_io(events: list[Event]) -> list[Row]:
    groups: dict[tuple[Any, ...], list[Use]] = {}
    for use in uses(events):
        if use.event.run:
            groups.setdefault((use.event.run, use.direction, *use.name, use.version), []).append(use)
    return [{**identity(key), **io_row(found)} for key, found in groups.items()]


def identity(key: tuple[Any, ...]) -> Row:
    names = ("run_uuid", "direction", "dataset_namespace", "dataset_name", "dataset_version")
    return dict(zip(names, key, strict=True))


def io_row(found: list[Use]) -> Row:
    """A use that is stated goes before those that are only implied."""
    stated = [use for use in found if use.dataset] or found
    jobs = [use.event.job for use in stated if use.event.job]
    listed = [(use.event.seq, use.dataset) for use in sorted(stated, key=lambda use: use.event.turn) if use.dataset]
    schemas = [(seq, dataset.facets["schema"]) for seq, dataset in listed if "schema" in dataset.facets]
    counts = [(seq, facet) for seq, dataset in listed for facet in row_counts(dataset)]
    return {
        "is_implied": not any(use.dataset for use in found),
        "job_namespace": max((job[0] for job in jobs), default=None),
        "job_name": max((job[1] for job in jobs), default=None),
        "session_id": max((use.event.session_id for use in stated if use.event.session_id is not None), default=None),
        "last_seq": max(use.event.seq for use in stated),
        "schema_id": schema_id(schemas[-1][1]) if schemas else None,
        "schema_seq": schemas[-1][0] if schemas else None,
        "row_count": row_count(counts[-1][1]) if counts else None,
        "row_count_seq": counts[-1][0] if counts else None,
    }


def schema_fields(facet: str) -> str | None:
    """The fields of a schema facet without the spaces between tokens."""
    fields = None if is_deleted(facet) else members(facet).get("fields")
    if fields is None or not fields.startswith("["):
        return None
    return re.sub(r'("(?:[^"\\]|\\.)*")|\s+', lambda found: found[1] or "", fields)


def schema_id(facet: str) -> str | None:
    fields = schema_fields(facet)
    return None if fields is None else hashlib.sha256(fields.encode()).hexdigest()[:32]


def row_counts(dataset: Dataset) -> list[str]:
    kinds: list[Facets] = [dataset.facets, dataset.input_facets, dataset.output_facets]
    return [facet for facets in kinds for name, facet in facets.items() if name in ROW_COUNTS and '"rowCount"' in facet]


def row_count(facet: str) -> int | None:
    value = opened(facet)
    count = value.get("rowCount") if isinstance(value, dict) and not is_deleted(facet) else None
    return count if isinstance(count, int) and not isinstance(count, bool) else None


def said_job_edges(events: list[Event]) -> list[Row]:
    """One row per job, direction and dataset, by the names that were said: but for what a job once declared."""
    rows: dict[tuple[str, ...], Row] = {}
    lasting: set[tuple[str, ...]] = set()
    declared, last = {event.seq: event.job for event in declaring(events)}, set(last_declared(events).values())

    def note(key: tuple[str, ...], event: Event, *, is_implied: bool) -> None:
        note_edge(rows, key, event, is_implied=is_implied)
        if declared.get(event.seq) != key[:2] or event.seq in last:
            lasting.add(key)

    for use in uses(events):
        if use.event.job:
            note((*use.event.job, use.direction, *use.name), use.event, is_implied=not use.dataset)
    for event in events:
        for entry in entries_of(event):
            for source in entry.sources:
                if entry.target[0] == "JOB" and source[0] == "DATASET":
                    note((*entry.target[1:], "INPUT", *source[1:]), event, is_implied=True)
                if entry.target[0] == "DATASET" and source[0] == "JOB":
                    note((*source[1:], "OUTPUT", *entry.target[1:]), event, is_implied=True)
    return [row for key, row in rows.items() if key in lasting]


def declaring(events: list[Event]) -> list[Event]:
    """The JobEvents that list datasets, the one that counts at the end."""
    return [event for event in in_turn(events) if event.job and not event.run and (event.inputs or event.outputs)]


def last_declared(events: list[Event]) -> dict[Name, int]:
    """By job, the position of the last event that declares what it reads and writes."""
    return {event.job: event.seq for event in declaring(events) if event.job}


def note_edge(rows: dict[tuple[str, ...], Row], key: tuple[str, ...], event: Event, *, is_implied: bool) -> None:
    names = ("job_namespace", "job_name", "direction", "dataset_namespace", "dataset_name")
    said = {"is_implied": is_implied, "first_event_at": event.at, **said_by(event)}
    merge(rows, key, {**dict(zip(names, key, strict=True)), **said})


def said_by(event: Event) -> Row:
    span = {"last_event_at": event.at, "first_seq": event.seq, "last_seq": event.seq}
    return {"last_run_uuid": event.run, **span}


def merge(rows: dict[tuple[str, ...], Row], key: tuple[str, ...], row: Row) -> None:
    """Join a row that says again what another said: the run is that of the last, times and positions span both."""
    known = rows.setdefault(key, row)
    if row["last_seq"] >= known["last_seq"]:
        known["last_run_uuid"] = row["last_run_uuid"]
    known["last_event_at"] = max(known["last_event_at"], row["last_event_at"])
    known["first_seq"] = min(known["first_seq"], row["first_seq"])
    known["last_seq"] = max(known["last_seq"], row["last_seq"])
    if "first_event_at" in row:
        known["first_event_at"] = min(known["first_event_at"], row["first_event_at"])
    if "is_implied" in row:
        known["is_implied"] = known["is_implied"] and row["is_implied"]


def job_links(events: list[Event]) -> list[Row]:
    """Which jobs feed a job: of one author and job its last entry counts, and of a job without a run its last facet."""
    last: dict[tuple[Any, ...], tuple[Event, list[Name]]] = {}
    declared: dict[Name, tuple[int, ...]] = {}
    for event in in_turn(events):
        if not event.run and event.job and "lineage" in event.job_facets:
            declared[event.job] = event.turn
        for entry in entries_of(event):
            if entry.target[0] == "JOB":
                jobs = [(namespace, name) for kind, namespace, name in entry.sources if kind == "JOB"]
                last[event.run or event.job, entry.target] = event, jobs
    rows: dict[tuple[str, ...], Row] = {}
    for (author, target), (event, jobs) in last.items():
        if event.run or event.turn >= declared.get(author, ()):
            for upstream in jobs:
                key = (*target[1:], *upstream)
                names = ("job_namespace", "job_name", "upstream_namespace", "upstream_name")
                merge(rows, key, {**dict(zip(names, key, strict=True)), **said_by(event)})
    return list(rows.values())


def said_column_edges(events: list[Event]) -> list[Row]:
    """The edges of all statements that count, by the names that were said."""
    versions: dict[tuple[Any, ...], str] = {}
    for use in uses(events):
        if use.event.run and use.version is not None:
            key = use.event.run, use.direction, use.name
            versions[key] = max(versions.get(key, use.version), use.version)
    rows = []
    for one in counting(events):
        event = one.event
        is_own = one.origin == "columnLineage"
        version = one.version if is_own else versions.get((event.run, "OUTPUT", one.target))
        for edge in one.edges or []:
            source = edge["source_namespace"], edge["source_name"]
            rows.append(
                {
                    "origin": one.origin,
                    "run_uuid": event.run,
                    "job_namespace": event.job and event.job[0],
                    "job_name": event.job and event.job[1],
                    "dataset_namespace": one.target[0],
                    "dataset_name": one.target[1],
                    "dataset_version": version,
                    "source_version": versions.get((event.run, "INPUT", source)),
                    "session_id": event.session_id,
                    "event_time": event.at,
                    "seq": event.seq,
                    **edge,
                }
            )
    return rows
