"""Reference implementation: datasets, their versions and schemas, and dataset edges after a list of events."""

from __future__ import annotations

from typing import Any

from tests.reference.events import Dataset, Event, Name, in_merge_order, is_deleted, parse_json, string_at
from tests.reference.lineage import (
    Author,
    Row,
    assertion_sources,
    author_key,
    current_assertions,
    lineage_assertions,
    lineage_entries,
)
from tests.reference.names import canonical_names
from tests.reference.queries import (
    DatasetUse,
    dataset_uses,
    event_columns,
    last_declarations,
    merge_row,
    reported_column_edges,
    reported_job_edges,
    run_io,
    schema_fields,
    schema_id,
)
from tests.reference.runs import runs

Moment = tuple[int, int]
# An event, its dataset, the lifecycle state and the previous name.
Change = tuple[Event, Dataset, tuple[str, Name | None]]


def datasets(events: list[Event]) -> list[Row]:
    canonical, renamed_at = canonical_names(events), renames(events)
    changes, writes = lifecycle_changes(events), [use for use in dataset_uses(events) if use.direction == "OUTPUT"]
    return [
        {
            **dataset_row(name, own_events, changes, [use for use in writes if use.name == name], renamed_at.get(name)),
            "description": last_description(name, events),
            **canonical_columns(canonical, name),
        }
        for name, own_events in events_by_dataset(events).items()
    ]


def canonical_columns(canonical: dict[Name, Name], name: Name) -> Row:
    namespace, canonical_name = canonical.get(name, name)
    return {"canonical_namespace": namespace, "canonical_name": canonical_name}


def events_by_dataset(events: list[Event]) -> dict[Name, list[Event]]:
    """Return the events that name each dataset: as input or output, as subject, or in lineage."""
    result: dict[Name, list[Event]] = {}
    for use in dataset_uses(events):
        result.setdefault(use.name, []).append(use.event)
    for event in events:
        names = [event.subject.key] if event.subject else []
        names += [assertion.target for assertion in lineage_assertions(event)]
        job_entries = [entry for entry in lineage_entries(event) if entry.target[0] == "JOB"]
        names += [source[1:] for entry in job_entries for source in entry.sources if source[0] == "DATASET"]
        for name in names:
            result.setdefault(name, []).append(event)
    return result


def dataset_row(
    name: Name, own_events: list[Event], changes: list[Change], writes: list[DatasetUse], renamed_at: Moment | None
) -> Row:
    own_changes = [(event_moment(event), change) for event, dataset, change in changes if dataset.key == name]
    # Of several changes in one event the last one counts.
    changed_at, change = max(reversed(own_changes), key=lambda pair: pair[0], default=(None, None))
    written_at = max((event_moment(use.event) for use in writes), default=None)
    state, previous = change or (None, None)
    # The event that drops a dataset may name it as its output.
    is_dropped = state == "DROP" and not is_later(written_at, changed_at)
    is_renamed = is_later(renamed_at, written_at) and is_later(renamed_at, changed_at)
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
        "first_event_at": min(event.at for event in own_events),
        "last_event_at": max(event.at for event in own_events),
        "first_seq": min(event.seq for event in own_events),
        "last_seq": max(event.seq for event in own_events),
    }


def last_description(name: Name, events: list[Event]) -> str | None:
    own_facets = [
        dataset.facets for event in in_merge_order(events) for dataset in event.datasets if dataset.key == name
    ]
    descriptions = [facets["documentation"] for facets in own_facets if "documentation" in facets]
    return (
        None
        if not descriptions or is_deleted(descriptions[-1])
        else string_at(parse_json(descriptions[-1]), "description")
    )


def event_moment(event: Event) -> Moment:
    return event.at, event.seq


def is_later(first: Moment | None, second: Moment | None) -> bool:
    return first is not None and (second is None or first > second)


def lifecycle_change(dataset: Dataset) -> tuple[str, Name | None] | None:
    """Return the lifecycle state of a dataset, and its previous name after a rename."""
    facet = dataset.facets.get("lifecycleStateChange")
    value = None if facet is None or is_deleted(facet) else parse_json(facet)
    state = string_at(value, "lifecycleStateChange")
    previous = string_at(value, "previousIdentifier", "namespace"), string_at(value, "previousIdentifier", "name")
    is_rename = state == "RENAME" and previous[0] is not None and previous[1] is not None
    return (state, (str(previous[0]), str(previous[1])) if is_rename else None) if state else None


def lifecycle_changes(events: list[Event]) -> list[Change]:
    candidates = [(event, dataset, lifecycle_change(dataset)) for event in events for dataset in event.datasets]
    return [(event, dataset, change) for event, dataset, change in candidates if change]


def renames(events: list[Event]) -> dict[Name, Moment]:
    """Return the time of the last rename of each dataset."""
    result: dict[Name, Moment] = {}
    for event, dataset, (_, previous) in lifecycle_changes(events):
        if previous and previous != dataset.key:
            result[previous] = max(result.get(previous, event_moment(event)), event_moment(event))
    return result


def dataset_versions(events: list[Event]) -> list[Row]:
    return written_versions(events) + declared_versions(events)


def written_versions(events: list[Event]) -> list[Row]:
    """Return one row per dataset, completed run that wrote it, and version."""
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
    """Return one row per dataset, schema and lifecycle state in DatasetEvents."""
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
    facets = {dataset.facets["schema"] for event in events for dataset in event.datasets if "schema" in dataset.facets}
    fields_by_id = {schema_id(facet): schema_fields(facet) for facet in facets}
    return [{"schema_id": name, "fields": fields} for name, fields in fields_by_id.items() if name is not None]


def dataset_edges(events: list[Event]) -> list[Row]:
    """Return dataset edges: asserted ones, else every output from every input."""
    statements = current_assertions(events)
    edges = [
        edge_row(assertion.target, source, assertion.origin, [assertion.event])
        for assertion in statements
        for source in sorted(assertion_sources(assertion))
    ]
    # Spec: `inputs: []` asserts that nothing is upstream. Column lineage without an edge asserts nothing.
    asserted = {
        (assertion.author, assertion.target)
        for assertion in statements
        if assertion.origin == "lineage" or assertion.edges
    }
    has_explicit = explicit_authors(events)
    for author, author_uses in uses_by_author(events).items():
        output_events = [use.event for use in author_uses if use.direction == "OUTPUT"]
        targets = {use.name for use in author_uses if use.direction == "OUTPUT" and (author, use.name) not in asserted}
        for source in (
            {use.name for use in author_uses if use.direction == "INPUT"} if author not in has_explicit else ()
        ):
            edges += [edge_row(target, source, "io", output_events, author_uses) for target in targets]
    rows: dict[tuple[Any, ...], Row] = {}
    for row in with_canonical_names(edges, events, "dataset", "source"):
        merge_row(rows, tuple(row[name] for name in sorted(row.keys() - event_columns(events[0]).keys())), row)
    return list(rows.values())


def edge_row(target: Name, source: Name, origin: str, events: list[Event], used: list[DatasetUse] | None = None) -> Row:
    jobs = [event.job for event in ([use.event for use in used] if used else events) if event.job]
    return {
        "dataset_namespace": target[0],
        "dataset_name": target[1],
        "source_namespace": source[0],
        "source_name": source[1],
        "origin": origin,
        "job_namespace": max((job[0] for job in jobs), default=None),
        "job_name": max((job[1] for job in jobs), default=None),
        "last_run_uuid": events[-1].run,
        "last_event_at": max(event.at for event in events),
        "first_seq": events[0].seq,
        "last_seq": events[-1].seq,
    }


def uses_by_author(events: list[Event]) -> dict[Author, list[DatasetUse]]:
    """Return the datasets of each run, and those of the last JobEvent of each job."""
    last = last_declarations(events)
    result: dict[Author, list[DatasetUse]] = {}
    for use in dataset_uses(events):
        is_declared = use.event.job and use.dataset and last.get(use.event.job) == use.event.seq
        if use.event.run or is_declared:
            result.setdefault(author_key(use.event), []).append(use)
    return result


def explicit_authors(events: list[Event]) -> set[Author]:
    """Return the authors of explicit lineage entries: a run by any event, a job by its last."""
    result: dict[Author, bool] = {}
    for event in in_merge_order(events):
        if event.job and "lineage" in event.job_facets:
            author, has_entries = author_key(event), '"entries"' in event.job_facets["lineage"]
            result[author] = has_entries or (author[0] == "run" and result.get(author, False))
    return {author for author, has_entries in result.items() if has_entries}


def with_canonical_names(rows: list[Row], events: list[Event], *prefixes: str) -> list[Row]:
    """Replace dataset names by their canonical names."""
    canonical = canonical_names(events)
    for row in rows:
        for prefix in prefixes:
            name = row[f"{prefix}_namespace"], row[f"{prefix}_name"]
            row[f"{prefix}_namespace"], row[f"{prefix}_name"] = canonical.get(name, name)
    return rows


def column_edges(events: list[Event]) -> list[Row]:
    return with_canonical_names(reported_column_edges(events), events, "dataset", "source")


def job_edges(events: list[Event]) -> list[Row]:
    rows: dict[tuple[str, ...], Row] = {}
    for row in with_canonical_names(reported_job_edges(events), events, "dataset"):
        key = ("job_namespace", "job_name", "direction", "dataset_namespace", "dataset_name")
        merge_row(rows, tuple(row[name] for name in key), row)
    return list(rows.values())
