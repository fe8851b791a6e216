"""Reference implementation: inputs and outputs of runs and jobs after a list of events."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from tests.reference.events import Dataset, Event, Facets, Name, in_merge_order, is_deleted, object_members, parse_json
from tests.reference.lineage import Row, current_assertions, implied_inputs, lineage_entries

ROW_COUNT_FACETS = {"outputStatistics", "inputStatistics", "dataQualityMetrics", "columnMetrics"}


@dataclass(frozen=True)
class DatasetUse:
    """A dataset that an event reads or writes; `dataset` is None if only its lineage names it."""

    event: Event
    direction: str
    name: Name
    version: str | None
    dataset: Dataset | None


def dataset_uses(events: list[Event]) -> list[DatasetUse]:
    result = []
    for event in events:
        result += [DatasetUse(event, "INPUT", dataset.key, dataset.version, dataset) for dataset in event.inputs]
        result += [DatasetUse(event, "OUTPUT", dataset.key, dataset.version, dataset) for dataset in event.outputs]
        result += [DatasetUse(event, "INPUT", name, None, None) for name in sorted(implied_inputs(event))]
    return result


def run_io(events: list[Event]) -> list[Row]:
    groups: dict[tuple[Any, ...], list[DatasetUse]] = {}
    for use in dataset_uses(events):
        if use.event.run:
            groups.setdefault((use.event.run, use.direction, *use.name, use.version), []).append(use)
    return [{**run_io_key(key), **run_io_row(uses)} for key, uses in groups.items()]


def run_io_key(key: tuple[Any, ...]) -> Row:
    names = ("run_uuid", "direction", "dataset_namespace", "dataset_name", "dataset_version")
    return dict(zip(names, key, strict=True))


def run_io_row(uses: list[DatasetUse]) -> Row:
    """Merge the uses of one dataset; listed uses have precedence over implied ones."""
    listed_uses = [use for use in uses if use.dataset] or uses
    jobs = [use.event.job for use in listed_uses if use.event.job]
    datasets = [
        (use.event.seq, use.dataset) for use in sorted(listed_uses, key=lambda use: use.event.merge_key) if use.dataset
    ]
    schemas = [(seq, dataset.facets["schema"]) for seq, dataset in datasets if "schema" in dataset.facets]
    counts = [(seq, facet) for seq, dataset in datasets for facet in row_counts(dataset)]
    return {
        "is_implied": not any(use.dataset for use in uses),
        "job_namespace": max((job[0] for job in jobs), default=None),
        "job_name": max((job[1] for job in jobs), default=None),
        "session_id": max(
            (use.event.session_id for use in listed_uses if use.event.session_id is not None), default=None
        ),
        "last_seq": max(use.event.seq for use in listed_uses),
        "schema_id": schema_id(schemas[-1][1]) if schemas else None,
        "schema_seq": schemas[-1][0] if schemas else None,
        "row_count": row_count(counts[-1][1]) if counts else None,
        "row_count_seq": counts[-1][0] if counts else None,
    }


def schema_fields(facet: str) -> str | None:
    """Return the fields of a schema facet without whitespace between tokens."""
    fields = None if is_deleted(facet) else object_members(facet).get("fields")
    if fields is None or not fields.startswith("["):
        return None
    return re.sub(r'("(?:[^"\\]|\\.)*")|\s+', lambda match: match[1] or "", fields)


def schema_id(facet: str) -> str | None:
    fields = schema_fields(facet)
    return None if fields is None else hashlib.sha256(fields.encode()).hexdigest()[:32]


def row_counts(dataset: Dataset) -> list[str]:
    kinds: list[Facets] = [dataset.facets, dataset.input_facets, dataset.output_facets]
    return [
        facet
        for facets in kinds
        for name, facet in facets.items()
        if name in ROW_COUNT_FACETS and '"rowCount"' in facet
    ]


def row_count(facet: str) -> int | None:
    value = parse_json(facet)
    count = value.get("rowCount") if isinstance(value, dict) and not is_deleted(facet) else None
    return count if isinstance(count, int) and not isinstance(count, bool) else None


def reported_job_edges(events: list[Event]) -> list[Row]:
    """Return one row per job, direction and dataset, by reported names, without outdated declarations."""
    rows: dict[tuple[str, ...], Row] = {}
    current: set[tuple[str, ...]] = set()
    declared, last = (
        {event.seq: event.job for event in declaring_events(events)},
        set(last_declarations(events).values()),
    )

    def add(key: tuple[str, ...], event: Event, *, is_implied: bool) -> None:
        add_job_edge(rows, key, event, is_implied=is_implied)
        if declared.get(event.seq) != key[:2] or event.seq in last:
            current.add(key)

    for use in dataset_uses(events):
        if use.event.job:
            add((*use.event.job, use.direction, *use.name), use.event, is_implied=not use.dataset)
    for event in events:
        for entry in lineage_entries(event):
            for source in entry.sources:
                if entry.target[0] == "JOB" and source[0] == "DATASET":
                    add((*entry.target[1:], "INPUT", *source[1:]), event, is_implied=True)
                if entry.target[0] == "DATASET" and source[0] == "JOB":
                    add((*source[1:], "OUTPUT", *entry.target[1:]), event, is_implied=True)
    return [row for key, row in rows.items() if key in current]


def declaring_events(events: list[Event]) -> list[Event]:
    """Return the JobEvents with inputs or outputs in merge order."""
    return [
        event for event in in_merge_order(events) if event.job and not event.run and (event.inputs or event.outputs)
    ]


def last_declarations(events: list[Event]) -> dict[Name, int]:
    """Return the position of the last declaring JobEvent by job."""
    return {event.job: event.seq for event in declaring_events(events) if event.job}


def add_job_edge(rows: dict[tuple[str, ...], Row], key: tuple[str, ...], event: Event, *, is_implied: bool) -> None:
    names = ("job_namespace", "job_name", "direction", "dataset_namespace", "dataset_name")
    columns = {"is_implied": is_implied, "first_event_at": event.at, **event_columns(event)}
    merge_row(rows, key, {**dict(zip(names, key, strict=True)), **columns})


def event_columns(event: Event) -> Row:
    span = {"last_event_at": event.at, "first_seq": event.seq, "last_seq": event.seq}
    return {"last_run_uuid": event.run, **span}


def merge_row(rows: dict[tuple[str, ...], Row], key: tuple[str, ...], row: Row) -> None:
    """Merge two rows of one key: the run of the last one, the span of both times and positions."""
    existing = rows.setdefault(key, row)
    if row["last_seq"] >= existing["last_seq"]:
        existing["last_run_uuid"] = row["last_run_uuid"]
    existing["last_event_at"] = max(existing["last_event_at"], row["last_event_at"])
    existing["first_seq"] = min(existing["first_seq"], row["first_seq"])
    existing["last_seq"] = max(existing["last_seq"], row["last_seq"])
    if "first_event_at" in row:
        existing["first_event_at"] = min(existing["first_event_at"], row["first_event_at"])
    if "is_implied" in row:
        existing["is_implied"] = existing["is_implied"] and row["is_implied"]


def job_dependencies(events: list[Event]) -> list[Row]:
    """Return the upstream jobs of each job: the last entry per author and job, the last facet of a JobEvent."""
    last: dict[tuple[Any, ...], tuple[Event, list[Name]]] = {}
    declared: dict[Name, tuple[int, ...]] = {}
    for event in in_merge_order(events):
        if not event.run and event.job and "lineage" in event.job_facets:
            declared[event.job] = event.merge_key
        for entry in lineage_entries(event):
            if entry.target[0] == "JOB":
                jobs = [(namespace, name) for kind, namespace, name in entry.sources if kind == "JOB"]
                last[event.run or event.job, entry.target] = event, jobs
    rows: dict[tuple[str, ...], Row] = {}
    for (author, target), (event, jobs) in last.items():
        if event.run or event.merge_key >= declared.get(author, ()):
            for upstream in jobs:
                key = (*target[1:], *upstream)
                names = ("job_namespace", "job_name", "upstream_namespace", "upstream_name")
                merge_row(rows, key, {**dict(zip(names, key, strict=True)), **event_columns(event)})
    return list(rows.values())


def reported_column_edges(events: list[Event]) -> list[Row]:
    """Return the edges of the current assertions, by reported names."""
    versions: dict[tuple[Any, ...], str] = {}
    for use in dataset_uses(events):
        if use.event.run and use.version is not None:
            key = use.event.run, use.direction, use.name
            versions[key] = max(versions.get(key, use.version), use.version)
    rows = []
    for assertion in current_assertions(events):
        event = assertion.event
        is_column_lineage = assertion.origin == "columnLineage"
        version = assertion.version if is_column_lineage else versions.get((event.run, "OUTPUT", assertion.target))
        for edge in assertion.edges or []:
            source = edge["source_namespace"], edge["source_name"]
            rows.append(
                {
                    "origin": assertion.origin,
                    "run_uuid": event.run,
                    "job_namespace": event.job and event.job[0],
                    "job_name": event.job and event.job[1],
                    "dataset_namespace": assertion.target[0],
                    "dataset_name": assertion.target[1],
                    "dataset_version": version,
                    "source_version": versions.get((event.run, "INPUT", source)),
                    "session_id": event.session_id,
                    "event_time": event.at,
                    "seq": event.seq,
                    **edge,
                }
            )
    return rows
