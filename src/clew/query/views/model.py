"""What the views have in common. Keys are camelCase in JSON."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from msgspec import Raw, Struct

from clew.events.notebook import FRAMES
from clew.index.reader import Row
from clew.query.model import State
from clew.query.moments import moment

Facets = dict[str, Raw]
NodeKind = Literal["dataset", "job"]


class Name(Struct, frozen=True, order=True):
    """What a dataset or a job is called."""

    namespace: str
    name: str

    @property
    def parts(self) -> tuple[str, str]:
        """The name as the index wants it."""
        return self.namespace, self.name


class RunLine(Struct, frozen=True, rename="camel"):
    """A run in a list or as a bar."""

    run_uuid: str
    job: Name | None
    state: State
    started_at: datetime | None
    ended_at: datetime | None
    session_id: str | None
    error: str | None


class Touch(Struct, frozen=True, rename="camel"):
    """A job at a dataset, or a dataset at a job: which, when last, by which run and how that ended."""

    node: Name
    at: datetime | None
    run_uuid: str | None
    state: State | None
    is_implied: bool


def run_line(row: Row) -> RunLine:
    """A run as stored, in short."""
    has_job = row["job_name"] is not None
    return RunLine(
        run_uuid=row["run_uuid"],
        job=Name(row["job_namespace"] or "", row["job_name"]) if has_job else None,
        state=row["state"],
        started_at=moment(row["started_at"]),
        ended_at=moment(row["ended_at"]),
        session_id=row["session_id"],
        error=None if row["error_message"] is None else row["error_message"][:300],
    )


def touches(rows: Iterable[Row], kind: NodeKind) -> tuple[Touch, ...]:
    """Edges as seen from one end: the other end is a `kind`. A notebook that has many is there once."""
    found: dict[Name, Touch] = {}
    for row in rows:
        name = Name(row[f"{kind}_namespace"], row[f"{kind}_name"])
        node = told_as(name) if kind == "job" else name
        found.setdefault(
            node,
            Touch(
                node=node,
                at=moment(row["last_event_at"]),
                run_uuid=row["last_run_uuid"],
                state=row["state"],
                is_implied=bool(row["is_implied"]),
            ),
        )
    return tuple(found.values())


def told_as(job: Name) -> Name:
    """The job that a person knows: `<notebook>/<cell>/<operation>` is told as its notebook."""
    return Name(job.namespace, job.name.rsplit("/", 2)[0]) if job.namespace == FRAMES else job


def raw(facets: dict[str, bytes]) -> Facets:
    """Facets as they came, to be passed on without opening them."""
    return {name: Raw(body) for name, body in facets.items()}
