"""Reference implementation: runs, jobs (placeholders included) and job versions after a list of events."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from tests.reference.events import (
    Event,
    Facets,
    Name,
    in_merge_order,
    is_deleted,
    parse_json,
    parse_optional_time,
    string_at,
)
from tests.reference.lineage import Row
from tests.reference.queries import DatasetUse, dataset_uses

RANKS = {"START": 1, "RUNNING": 2, "COMPLETE": 3, "FAIL": 3, "ABORT": 3}
STATES = {"START": "RUNNING", "RUNNING": "RUNNING", "COMPLETE": "COMPLETED", "FAIL": "FAILED", "ABORT": "ABORTED"}
FINISHED_RANK = 3


def get_run_facets(event: Event) -> Facets:
    return event.run_facets


def get_parent_facets(event: Event) -> Facets:
    """Return the `parent` facet; its early name `parentRun` wins."""
    name = "parentRun" if "parentRun" in event.run_facets else "parent"
    return {"parent": event.run_facets[name]} if name in event.run_facets else {}


def get_job_facets(event: Event) -> Facets:
    return event.job_facets


def last_facet(events: Iterable[Event], facets: Callable[[Event], Facets], name: str) -> tuple[int | None, Any]:
    """Return position and value of the current facet; the value is None if it was deleted."""
    carriers = [event for event in in_merge_order(events) if name in facets(event)]
    if not carriers:
        return None, None
    facet = facets(carriers[-1])[name]
    return carriers[-1].seq, None if is_deleted(facet) else parse_json(facet)


def runs(events: list[Event]) -> list[Row]:
    events_by_run: dict[str, list[Event]] = {}
    uses_by_run: dict[str, list[DatasetUse]] = {}
    for event in events:
        if event.run:
            events_by_run.setdefault(event.run, []).append(event)
    for use in dataset_uses(events):
        if use.event.run:
            uses_by_run.setdefault(use.event.run, []).append(use)
    rows = [run_row(name, own_events, uses_by_run.get(name, [])) for name, own_events in events_by_run.items()]
    empty = dict.fromkeys(rows[0]) if rows else {}
    return [*rows, *({**empty, **row} for name, row in mentioned_runs(events).items() if name not in events_by_run)]


def run_row(name: str, own_events: list[Event], run_uses: list[DatasetUse]) -> Row:
    state_event = max(own_events, key=lambda event: (RANKS.get(event.kind, 0), event.at, event.seq))
    job_events = [event for event in own_events if event.job]
    job = job_events[0].job if job_events else None
    parent_seq, parent = last_facet(own_events, get_parent_facets, "parent")
    nominal_seq, nominal = last_facet(own_events, get_run_facets, "nominalTime")
    error_seq, error = last_facet(own_events, get_run_facets, "errorMessage")
    location_seq, location = last_facet(job_events, get_job_facets, "sourceCodeLocation")
    is_ended = RANKS.get(state_event.kind) == FINISHED_RANK
    return {
        "run_uuid": name,
        "is_placeholder": False,
        "job_namespace": job and job[0],
        "job_name": job and job[1],
        "state": STATES.get(state_event.kind, "NEW"),
        "state_rank": RANKS.get(state_event.kind, 0),
        "state_at": state_event.at,
        "state_seq": state_event.seq,
        "started_at": min((event.at for event in own_events if event.kind == "START"), default=None),
        "ended_at": state_event.at if is_ended else None,
        "first_event_at": min(event.at for event in own_events),
        "last_event_at": max(event.at for event in own_events),
        "parent_run_uuid": string_at(parent, "run", "runId"),
        "parent_job_namespace": string_at(parent, "job", "namespace"),
        "parent_job_name": string_at(parent, "job", "name"),
        "root_run_uuid": string_at(parent, "root", "run", "runId"),
        "root_job_namespace": string_at(parent, "root", "job", "namespace"),
        "root_job_name": string_at(parent, "root", "job", "name"),
        "parent_seq": parent_seq,
        "nominal_start_at": parse_optional_time(string_at(nominal, "nominalStartTime")),
        "nominal_end_at": parse_optional_time(string_at(nominal, "nominalEndTime")),
        "nominal_seq": nominal_seq,
        "error_message": string_at(error, "message"),
        "error_language": string_at(error, "programmingLanguage"),
        "error_seq": error_seq,
        "source_code_location": format_location(location),
        "source_code_location_seq": location_seq,
        "job_version": job_version(job, run_uses, format_location(location)) if job and is_ended else None,
        "session_id": max((event.session_id for event in own_events if event.session_id is not None), default=None),
        "execution_id": max(
            (event.execution_id for event in own_events if event.execution_id is not None), default=None
        ),
        "last_seq": own_events[-1].seq,
    }


def named_ancestors(event: Event) -> list[tuple[str, Name | None]]:
    """Return the runs named as parent and root, each with its job if the name is complete."""
    _, parent = last_facet([event] if event.run else [], get_parent_facets, "parent")
    result = []
    for value in (parent, parent.get("root") if isinstance(parent, dict) else None):
        name, job = (
            string_at(value, "run", "runId"),
            (string_at(value, "job", "namespace"), string_at(value, "job", "name")),
        )
        if name:
            result.append((name, None if job[0] is None or job[1] is None else (job[0], job[1])))
    return result


def mentioned_runs(events: list[Event]) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for event in events:
        for name, job in named_ancestors(event):
            row = rows.setdefault(name, {"run_uuid": name, "is_placeholder": True, "state": "NEW", "state_rank": 0})
            row["last_seq"] = event.seq
            row["first_event_at"] = min(event.at, row.get("first_event_at", event.at))
            row["last_event_at"] = max(event.at, row.get("last_event_at", event.at))
            if job and "job_name" not in row:
                row["job_namespace"], row["job_name"] = job
    return rows


def jobs(events: list[Event]) -> list[Row]:
    events_by_job: dict[Name, list[Event]] = {}
    mentions: dict[Name, list[Event]] = {}
    for event in events:
        if event.job:
            events_by_job.setdefault(event.job, []).append(event)
        for _, job_name in named_ancestors(event):
            if job_name:
                mentions.setdefault(job_name, []).append(event)
    versions = reported_versions(events)
    rows = [job_row(name, own_events, versions) for name, own_events in events_by_job.items()]
    empty = dict.fromkeys(rows[0]) if rows else {}
    placeholders = [name for name in mentions if name not in events_by_job]
    return rows + [
        {
            **empty,
            "namespace": name[0],
            "name": name[1],
            "is_placeholder": True,
            "first_event_at": min(event.at for event in mentions[name]),
            "last_event_at": max(event.at for event in mentions[name]),
            "first_seq": mentions[name][0].seq,
            "last_seq": mentions[name][-1].seq,
        }
        for name in placeholders
    ]


def job_row(name: Name, own_events: list[Event], versions: list[Row]) -> Row:
    latest = max((event for event in own_events if event.run), key=lambda event: (event.at, event.seq), default=None)
    type_seq, job_type = last_facet(own_events, get_job_facets, "jobType")
    description_seq, documentation = last_facet(own_events, get_job_facets, "documentation")
    own_versions = [row for row in versions if (row["job_namespace"], row["job_name"]) == name]
    return {
        "namespace": name[0],
        "name": name[1],
        "is_placeholder": False,
        "job_type": string_at(job_type, "jobType"),
        "integration": string_at(job_type, "integration"),
        "processing_type": string_at(job_type, "processingType"),
        "type_seq": type_seq,
        "description": string_at(documentation, "description"),
        "description_seq": description_seq,
        "latest_run_uuid": latest and latest.run,
        "latest_run_at": latest and latest.at,
        "latest_run_seq": latest and latest.seq,
        "first_event_at": min(event.at for event in own_events),
        "last_event_at": max(event.at for event in own_events),
        "current_version": max(own_versions, key=lambda row: (row["at"], row["seq"]))["version"]
        if own_versions
        else None,
        "first_seq": own_events[0].seq,
        "last_seq": own_events[-1].seq,
    }


def format_location(value: Any) -> str | None:
    """Format a source code location: `url`, else repository and path; then the version."""
    parts = [part for part in (string_at(value, "repoUrl"), string_at(value, "path")) if part]
    location, version = string_at(value, "url") or "/".join(parts), string_at(value, "version")
    return (f"{location}@{version}" if version else location) or None


def job_version(name: Name, run_uses: list[DatasetUse], location: str | None) -> str:
    texts = [
        "\x1e".join(sorted("\x1d".join(dataset) for dataset in dataset_names(run_uses, direction)))
        for direction in ("INPUT", "OUTPUT")
    ]
    text = "\x1f".join([*name, *texts, location or ""])
    return str(UUID(hashlib.md5(text.encode()).hexdigest()))


def dataset_names(run_uses: list[DatasetUse], direction: str) -> set[Name]:
    return {use.name for use in run_uses if use.direction == direction}


def reported_versions(events: list[Event]) -> list[Row]:
    """Return one row with the job version per finished run and per JobEvent."""
    finished_runs = {row["run_uuid"]: row for row in runs(events) if row["job_version"]}
    uses_by_author: dict[Any, list[DatasetUse]] = {}
    for use in dataset_uses(events):
        uses_by_author.setdefault(use.event.run or use.event.seq, []).append(use)
    rows = [
        version_row((row["job_namespace"], row["job_name"]), uses_by_author.get(name, []), row["source_code_location"])
        | {"run_uuid": name, "at": row["ended_at"], "seq": row["state_seq"]}
        for name, row in finished_runs.items()
    ]
    for event in events:
        if event.job and not event.run:
            location = format_location(last_facet([event], get_job_facets, "sourceCodeLocation")[1])
            version = version_row(event.job, uses_by_author.get(event.seq, []), location)
            rows.append(version | {"run_uuid": None, "at": event.at, "seq": event.seq})
    return rows


def version_row(name: Name, run_uses: list[DatasetUse], location: str | None) -> Row:
    lists = {
        key: [{"namespace": dataset[0], "name": dataset[1]} for dataset in sorted(dataset_names(run_uses, direction))]
        for key, direction in (("inputs", "INPUT"), ("outputs", "OUTPUT"))
    }
    identity = {"job_namespace": name[0], "job_name": name[1], "version": job_version(name, run_uses, location)}
    return {**identity, **lists, "source_code_location": location}


def job_versions(events: list[Event]) -> list[Row]:
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in reported_versions(events):
        groups.setdefault((row["job_namespace"], row["job_name"], row["version"]), []).append(row)
    return [merge_version(rows) for rows in groups.values()]


def merge_version(rows: list[Row]) -> Row:
    run_rows = sorted((row for row in rows if row["run_uuid"]), key=lambda row: (row["at"], row["seq"]))
    columns = {key: value for key, value in rows[0].items() if key not in {"run_uuid", "at", "seq"}}
    return columns | {
        "created_at": min(row["at"] for row in rows),
        "first_run_uuid": run_rows[0]["run_uuid"] if run_rows else None,
        "latest_run_uuid": run_rows[-1]["run_uuid"] if run_rows else None,
        "run_count": len(run_rows),
        "first_seq": min(row["seq"] for row in rows),
        "last_seq": max(row["seq"] for row in rows),
    }
