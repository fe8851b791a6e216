"""Runs and jobs after a list of events, those that are only known by name included, and versions of jobs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from tests.reference.events import Event, Facets, Name, in_turn, is_deleted, opened, said, time_or_none
from tests.reference.lineage import Row
from tests.reference.queries import Use, uses

RANKS = {"START": 1, "RUNNING": 2, "COMPLETE": 3, "FAIL": 3, "ABORT": 3}
STATES = {"START": "RUNNING", "RUNNING": "RUNNING", "COMPLETE": "COMPLETED", "FAIL": "FAILED", "ABORT": "ABORTED"}
ENDED = 3


def of_run(event: Event) -> Facets:
    return event.run_facets


def of_job(event: Event) -> Facets:
    return event.job_facets


def last_said(events: Iterable[Event], facets: Callable[[Event], Facets], name: str) -> tuple[int | None, Any]:
    """Position and value of the facet that counts; it says nothing if it was deleted."""
    bearers = [event for event in in_turn(events) if name in facets(event)]
    if not bearers:
        return None, None
    facet = facets(bearers[-1])[name]
    return bearers[-1].seq, None if is_deleted(facet) else opened(facet)


def runs(events: list[Event]) -> list[Row]:
    own: dict[str, list[Event]] = {}
    used: dict[str, list[Use]] = {}
    for event in events:
        if event.run:
            own.setdefault(event.run, []).append(event)
    for use in uses(events):
        if use.event.run:
            used.setdefault(use.event.run, []).append(use)
    heard = [run(name, found, used.get(name, [])) for name, found in own.items()]
    empty = dict.fromkeys(heard[0]) if heard else {}
    return [*heard, *({**empty, **row} for name, row in mentioned_runs(events).items() if name not in own)]


def run(name: str, own: list[Event], used: list[Use]) -> Row:
    deciding = max(own, key=lambda event: (RANKS.get(event.kind, 0), event.at, event.seq))
    naming = [event for event in own if event.job]
    job = naming[0].job if naming else None
    parent_seq, parent = last_said(own, of_run, "parent")
    nominal_seq, nominal = last_said(own, of_run, "nominalTime")
    error_seq, error = last_said(own, of_run, "errorMessage")
    location_seq, place = last_said(naming, of_job, "sourceCodeLocation")
    is_ended = RANKS.get(deciding.kind) == ENDED
    return {
        "run_uuid": name,
        "is_placeholder": False,
        "job_namespace": job and job[0],
        "job_name": job and job[1],
        "state": STATES.get(deciding.kind, "NEW"),
        "state_rank": RANKS.get(deciding.kind, 0),
        "state_at": deciding.at,
        "state_seq": deciding.seq,
        "started_at": min((event.at for event in own if event.kind == "START"), default=None),
        "ended_at": deciding.at if is_ended else None,
        "first_event_at": min(event.at for event in own),
        "last_event_at": max(event.at for event in own),
        "parent_run_uuid": said(parent, "run", "runId"),
        "parent_job_namespace": said(parent, "job", "namespace"),
        "parent_job_name": said(parent, "job", "name"),
        "root_run_uuid": said(parent, "root", "run", "runId"),
        "root_job_namespace": said(parent, "root", "job", "namespace"),
        "root_job_name": said(parent, "root", "job", "name"),
        "parent_seq": parent_seq,
        "nominal_start_at": time_or_none(said(nominal, "nominalStartTime")),
        "nominal_end_at": time_or_none(said(nominal, "nominalEndTime")),
        "nominal_seq": nominal_seq,
        "error_message": said(error, "message"),
        "error_language": said(error, "programmingLanguage"),
        "error_seq": error_seq,
        "source_code_location": location(place),
        "source_code_location_seq": location_seq,
        "job_version": job_version(job, used, location(place)) if job and is_ended else None,
        "session_id": max((event.session_id for event in own if event.session_id is not None), default=None),
        "execution_id": max((event.execution_id for event in own if event.execution_id is not None), default=None),
        "last_seq": own[-1].seq,
    }


def ancestors(event: Event) -> list[tuple[str, Name | None]]:
    """The runs that an event names as parent and root, each with its job if that is named in full."""
    _, parent = last_said([event] if event.run else [], of_run, "parent")
    found = []
    for value in (parent, parent.get("root") if isinstance(parent, dict) else None):
        name, job = said(value, "run", "runId"), (said(value, "job", "namespace"), said(value, "job", "name"))
        if name:
            found.append((name, None if job[0] is None or job[1] is None else (job[0], job[1])))
    return found


def mentioned_runs(events: list[Event]) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for event in events:
        for name, job in ancestors(event):
            row = rows.setdefault(name, {"run_uuid": name, "is_placeholder": True, "state": "NEW", "state_rank": 0})
            row["last_seq"] = event.seq
            if job and "job_name" not in row:
                row["job_namespace"], row["job_name"] = job
    return rows


def jobs(events: list[Event]) -> list[Row]:
    own: dict[Name, list[Event]] = {}
    mentions: dict[Name, list[int]] = {}
    for event in events:
        if event.job:
            own.setdefault(event.job, []).append(event)
        for _, named in ancestors(event):
            if named:
                mentions.setdefault(named, []).append(event.seq)
    versions = said_versions(events)
    heard = [job(name, found, versions) for name, found in own.items()]
    empty = dict.fromkeys(heard[0]) if heard else {}
    named_only = [name for name in mentions if name not in own]
    return heard + [
        {
            **empty,
            "namespace": name[0],
            "name": name[1],
            "is_placeholder": True,
            "first_seq": mentions[name][0],
            "last_seq": mentions[name][-1],
        }
        for name in named_only
    ]


def job(name: Name, own: list[Event], versions: list[Row]) -> Row:
    latest = max((event for event in own if event.run), key=lambda event: (event.at, event.seq), default=None)
    type_seq, kind = last_said(own, of_job, "jobType")
    description_seq, documentation = last_said(own, of_job, "documentation")
    had = [row for row in versions if (row["job_namespace"], row["job_name"]) == name]
    return {
        "namespace": name[0],
        "name": name[1],
        "is_placeholder": False,
        "job_type": said(kind, "jobType"),
        "integration": said(kind, "integration"),
        "processing_type": said(kind, "processingType"),
        "type_seq": type_seq,
        "description": said(documentation, "description"),
        "description_seq": description_seq,
        "latest_run_uuid": latest and latest.run,
        "latest_run_at": latest and latest.at,
        "latest_run_seq": latest and latest.seq,
        "first_event_at": min(event.at for event in own),
        "last_event_at": max(event.at for event in own),
        "current_version": max(had, key=lambda row: (row["at"], row["seq"]))["version"] if had else None,
        "first_seq": own[0].seq,
        "last_seq": own[-1].seq,
    }


def location(value: Any) -> str | None:
    """`url`, else repository and path; then the version."""
    parts = [part for part in (said(value, "repoUrl"), said(value, "path")) if part]
    place, version = said(value, "url") or "/".join(parts), said(value, "version")
    return (f"{place}@{version}" if version else place) or None


def job_version(name: Name, used: list[Use], place: str | None) -> str:
    texts = ["\x1e".join(sorted("\x1d".join(one) for one in datasets(used, way))) for way in ("INPUT", "OUTPUT")]
    text = "\x1f".join([*name, *texts, place or ""])
    return str(UUID(hashlib.md5(text.encode()).hexdigest()))


def datasets(used: list[Use], direction: str) -> set[Name]:
    return {use.name for use in used if use.direction == direction}


def said_versions(events: list[Event]) -> list[Row]:
    """One row per run that has ended and per JobEvent, with the version that it has."""
    ended = {row["run_uuid"]: row for row in runs(events) if row["job_version"]}
    used: dict[Any, list[Use]] = {}
    for use in uses(events):
        used.setdefault(use.event.run or use.event.seq, []).append(use)
    found = [
        version_row((row["job_namespace"], row["job_name"]), used.get(name, []), row["source_code_location"])
        | {"run_uuid": name, "at": row["ended_at"], "seq": row["state_seq"]}
        for name, row in ended.items()
    ]
    for event in events:
        if event.job and not event.run:
            place = location(last_said([event], of_job, "sourceCodeLocation")[1])
            own = version_row(event.job, used.get(event.seq, []), place)
            found.append(own | {"run_uuid": None, "at": event.at, "seq": event.seq})
    return found


def version_row(name: Name, used: list[Use], place: str | None) -> Row:
    lists = {
        key: [{"namespace": one[0], "name": one[1]} for one in sorted(datasets(used, way))]
        for key, way in (("inputs", "INPUT"), ("outputs", "OUTPUT"))
    }
    identity = {"job_namespace": name[0], "job_name": name[1], "version": job_version(name, used, place)}
    return {**identity, **lists, "source_code_location": place}


def job_versions(events: list[Event]) -> list[Row]:
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in said_versions(events):
        groups.setdefault((row["job_namespace"], row["job_name"], row["version"]), []).append(row)
    return [one_version(rows) for rows in groups.values()]


def one_version(rows: list[Row]) -> Row:
    of_runs = sorted((row for row in rows if row["run_uuid"]), key=lambda row: (row["at"], row["seq"]))
    kept = {key: value for key, value in rows[0].items() if key not in {"run_uuid", "at", "seq"}}
    return kept | {
        "created_at": min(row["at"] for row in rows),
        "first_run_uuid": of_runs[0]["run_uuid"] if of_runs else None,
        "latest_run_uuid": of_runs[-1]["run_uuid"] if of_runs else None,
        "run_count": len(of_runs),
        "first_seq": min(row["seq"] for row in rows),
        "last_seq": max(row["seq"] for row in rows),
    }
