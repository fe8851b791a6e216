"""Datasets after a list of events: what became of them, their versions and schemas, and which come from which."""

from __future__ import annotations

from typing import Any

from tests.reference.events import Dataset, Event, Name, in_turn, is_deleted, opened, said
from tests.reference.lineage import Author, Row, author_of, counting, entries_of, sources_of, statements_of
from tests.reference.names import nodes
from tests.reference.queries import (
    Use,
    last_declared,
    merge,
    run_io,
    said_by,
    said_column_edges,
    said_job_edges,
    schema_fields,
    schema_id,
    uses,
)
from tests.reference.runs import runs

Moment = tuple[int, int]
# An event, the dataset in it, what has become of that and what it was called before.
Change = tuple[Event, Dataset, tuple[str, Name | None]]


def datasets(events: list[Event]) -> list[Row]:
    node, renamed = nodes(events), renames(events)
    changes, writes = lifecycle_changes(events), [use for use in uses(events) if use.direction == "OUTPUT"]
    return [
        {
            **dataset(name, seen, changes, [use for use in writes if use.name == name], renamed.get(name)),
            "description": description(name, events),
            **node_of(node, name),
        }
        for name, seen in sightings(events).items()
    ]


def node_of(node: dict[Name, Name], name: Name) -> Row:
    namespace, called = node.get(name, name)
    return {"canonical_namespace": namespace, "canonical_name": called}


def sightings(events: list[Event]) -> dict[Name, list[Event]]:
    """The events that name each dataset: in a list, on its own, or in lineage."""
    found: dict[Name, list[Event]] = {}
    for use in uses(events):
        found.setdefault(use.name, []).append(use.event)
    for event in events:
        names = [event.subject.key] if event.subject else []
        names += [one.target for one in statements_of(event)]
        fed_jobs = [entry for entry in entries_of(event) if entry.target[0] == "JOB"]
        names += [source[1:] for entry in fed_jobs for source in entry.sources if source[0] == "DATASET"]
        for name in names:
            found.setdefault(name, []).append(event)
    return found


def dataset(name: Name, seen: list[Event], changes: list[Change], writes: list[Use], renamed_at: Moment | None) -> Row:
    own = [(moment(event), change) for event, one, change in changes if one.key == name]
    # Of several in one event the last counts.
    changed_at, change = max(reversed(own), key=lambda found: found[0], default=(None, None))
    written_at = max((moment(use.event) for use in writes), default=None)
    state, previous = change or (None, None)
    # The event that drops a dataset may name it as its output.
    is_dropped = state == "DROP" and not later(written_at, changed_at)
    is_renamed = later(renamed_at, written_at) and later(renamed_at, changed_at)
    last_write = max(writes, key=lambda use: (use.event.seq, use.version or ""), default=None)
    return {
        "namespace": name[0],
        "name": name[1],
        "lifecycle_state": state,
        "lifecycle_at": changed_at and changed_at[0],
        "renamed_from_namespace": previous and previous[0],
        "renamed_from_name": previous and previous[1],
        "is_deleted": is_dropped or is_renamed,
        "current_version": last_write and last_write.version,
        "first_event_at": min(event.at for event in seen),
        "last_event_at": max(event.at for event in seen),
        "first_seq": min(event.seq for event in seen),
        "last_seq": max(event.seq for event in seen),
    }


def description(name: Name, events: list[Event]) -> str | None:
    own = [one.facets for event in in_turn(events) for one in event.datasets if one.key == name]
    said_so = [facets["documentation"] for facets in own if "documentation" in facets]
    return None if not said_so or is_deleted(said_so[-1]) else said(opened(said_so[-1]), "description")


def moment(event: Event) -> Moment:
    return event.at, event.seq


def later(one: Moment | None, other: Moment | None) -> bool:
    return one is not None and (other is None or one > other)


def lifecycle_change(one: Dataset) -> tuple[str, Name | None] | None:
    """What has become of a dataset, and what it was called before if it was renamed."""
    facet = one.facets.get("lifecycleStateChange")
    value = None if facet is None or is_deleted(facet) else opened(facet)
    state = said(value, "lifecycleStateChange")
    before = said(value, "previousIdentifier", "namespace"), said(value, "previousIdentifier", "name")
    is_rename = state == "RENAME" and before[0] is not None and before[1] is not None
    return (state, (str(before[0]), str(before[1])) if is_rename else None) if state else None


def lifecycle_changes(events: list[Event]) -> list[Change]:
    found = [(event, one, lifecycle_change(one)) for event in events for one in event.datasets]
    return [(event, one, change) for event, one, change in found if change]


def renames(events: list[Event]) -> dict[Name, Moment]:
    """When each dataset got another name."""
    found: dict[Name, Moment] = {}
    for event, one, (_, previous) in lifecycle_changes(events):
        if previous and previous != one.key:
            found[previous] = max(found.get(previous, moment(event)), moment(event))
    return found


def dataset_versions(events: list[Event]) -> list[Row]:
    return written_versions(events) + declared_versions(events)


def written_versions(events: list[Event]) -> list[Row]:
    """One row per dataset and completed run that wrote it, for each version that it told apart."""
    completed = {row["run_uuid"]: row for row in runs(events) if row["state"] == "COMPLETED"}
    outputs = [row for row in run_io(events) if row["direction"] == "OUTPUT" and row["run_uuid"] in completed]
    versioned = {output_key(row) for row in outputs if row["dataset_version"] is not None}
    return [
        {
            "dataset_namespace": row["dataset_namespace"],
            "dataset_name": row["dataset_name"],
            "version": row["dataset_version"],
            "run_uuid": row["run_uuid"],
            "job_namespace": completed[row["run_uuid"]]["job_namespace"],
            "job_name": completed[row["run_uuid"]]["job_name"],
            "created_at": completed[row["run_uuid"]]["ended_at"],
            "schema_id": row["schema_id"],
            "row_count": row["row_count"],
            "lifecycle_state": None,
            "last_seq": row["last_seq"],
        }
        for row in outputs
        if row["dataset_version"] is not None or output_key(row) not in versioned
    ]


def output_key(row: Row) -> tuple[str, ...]:
    return row["run_uuid"], row["dataset_namespace"], row["dataset_name"]


def declared_versions(events: list[Event]) -> list[Row]:
    """One row per dataset, schema and lifecycle state that DatasetEvents declare."""
    rows: dict[tuple[Any, ...], Row] = {}
    for event in events:
        subject = event.subject
        if subject is None or event.run:
            continue
        change = lifecycle_change(subject)
        schema = schema_id(subject.facets["schema"]) if "schema" in subject.facets else None
        if schema or change:
            key = (*subject.key, schema, change and change[0])
            row = rows.setdefault(key, {"created_at": event.at})
            row["created_at"] = min(row["created_at"], event.at)
            row["version"], row["last_seq"] = subject.version, event.seq
    names = ("dataset_namespace", "dataset_name", "schema_id", "lifecycle_state")
    absent = dict.fromkeys(("run_uuid", "job_namespace", "job_name", "row_count"))
    return [{**absent, **dict(zip(names, key, strict=True)), **row} for key, row in rows.items()]


def schemas(events: list[Event]) -> list[Row]:
    facets = {one.facets["schema"] for event in events for one in event.datasets if "schema" in one.facets}
    found = {schema_id(facet): schema_fields(facet) for facet in facets}
    return [{"schema_id": name, "fields": fields} for name, fields in found.items() if name is not None]


def dataset_edges(events: list[Event]) -> list[Row]:
    """Which dataset comes from which: by what is said; where nothing is said, every output from every input."""
    statements = counting(events)
    found = [
        edge(one.target, source, one.origin, [one.event]) for one in statements for source in sorted(sources_of(one))
    ]
    # Spec: `inputs: []` says that nothing is upstream. Column lineage without an edge says nothing.
    told = {(one.author, one.target) for one in statements if one.origin == "lineage" or one.edges}
    explicit = explicit_authors(events)
    for author, used in authored(events).items():
        told_by = [use.event for use in used if use.direction == "OUTPUT"]
        targets = {use.name for use in used if use.direction == "OUTPUT" and (author, use.name) not in told}
        for source in {use.name for use in used if use.direction == "INPUT"} if author not in explicit else ():
            found += [edge(target, source, "io", told_by, used) for target in targets]
    rows: dict[tuple[Any, ...], Row] = {}
    for row in in_nodes(found, events, "dataset", "source"):
        merge(rows, tuple(row[name] for name in sorted(row.keys() - said_by(events[0]).keys())), row)
    return list(rows.values())


def edge(target: Name, source: Name, origin: str, told_by: list[Event], used: list[Use] | None = None) -> Row:
    jobs = [event.job for event in ([use.event for use in used] if used else told_by) if event.job]
    return {
        "dataset_namespace": target[0],
        "dataset_name": target[1],
        "source_namespace": source[0],
        "source_name": source[1],
        "origin": origin,
        "job_namespace": max((job[0] for job in jobs), default=None),
        "job_name": max((job[1] for job in jobs), default=None),
        "last_run_uuid": told_by[-1].run,
        "last_event_at": max(event.at for event in told_by),
        "first_seq": told_by[0].seq,
        "last_seq": told_by[-1].seq,
    }


def authored(events: list[Event]) -> dict[Author, list[Use]]:
    """What each run uses, and what the last JobEvent of each job lists."""
    last = last_declared(events)
    found: dict[Author, list[Use]] = {}
    for use in uses(events):
        is_declared = use.event.job and use.dataset and last.get(use.event.job) == use.event.seq
        if use.event.run or is_declared:
            found.setdefault(author_of(use.event), []).append(use)
    return found


def explicit_authors(events: list[Event]) -> set[Author]:
    """Who gave entries of explicit lineage: of a run any event tells, of a job the last."""
    found: dict[Author, bool] = {}
    for event in in_turn(events):
        if event.job and "lineage" in event.job_facets:
            author, has_entries = author_of(event), '"entries"' in event.job_facets["lineage"]
            found[author] = has_entries or (author[0] == "run" and found.get(author, False))
    return {author for author, has_entries in found.items() if has_entries}


def in_nodes(rows: list[Row], events: list[Event], *prefixes: str) -> list[Row]:
    """The rows with the names of nodes in place of the names that were said."""
    node = nodes(events)
    for row in rows:
        for prefix in prefixes:
            name = row[f"{prefix}_namespace"], row[f"{prefix}_name"]
            row[f"{prefix}_namespace"], row[f"{prefix}_name"] = node.get(name, name)
    return rows


def column_edges(events: list[Event]) -> list[Row]:
    return in_nodes(said_column_edges(events), events, "dataset", "source")


def job_edges(events: list[Event]) -> list[Row]:
    rows: dict[tuple[str, ...], Row] = {}
    for row in in_nodes(said_job_edges(events), events, "dataset"):
        key = ("job_namespace", "job_name", "direction", "dataset_namespace", "dataset_name")
        merge(rows, tuple(row[name] for name in key), row)
    return list(rows.values())
