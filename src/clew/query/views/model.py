"""Models shared by the views. JSON keys are camelCase."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from msgspec import Raw, Struct

from clew.events.notebook import NOTEBOOK_NAMESPACE
from clew.index.reader import Row
from clew.query.model import State
from clew.query.moments import from_epoch_micros

Facets = dict[str, Raw]
NodeKind = Literal["dataset", "job"]


class EntityName(Struct, frozen=True, order=True):
    """Namespace and name of a dataset or job."""

    namespace: str
    name: str

    @property
    def key(self) -> tuple[str, str]:
        """The name as a tuple, for index queries."""
        return self.namespace, self.name


class RunListItem(Struct, frozen=True, rename="camel"):
    """A run in a list."""

    run_uuid: str
    job: EntityName | None
    state: State
    started_at: datetime | None
    ended_at: datetime | None
    session_id: str | None
    error: str | None


class Usage(Struct, frozen=True, rename="camel"):
    """A job that uses a dataset, or a dataset used by a job, with the latest run."""

    node: EntityName
    at: datetime | None
    run_uuid: str | None
    state: State | None
    is_implied: bool


def to_run_item(row: Row) -> RunListItem:
    """Convert a run row to a list item."""
    has_job = row["job_name"] is not None
    return RunListItem(
        run_uuid=row["run_uuid"],
        job=EntityName(row["job_namespace"] or "", row["job_name"]) if has_job else None,
        state=row["state"],
        started_at=from_epoch_micros(row["started_at"]),
        ended_at=from_epoch_micros(row["ended_at"]),
        session_id=row["session_id"],
        error=None if row["error_message"] is None else row["error_message"][:300],
    )


def to_usages(rows: Iterable[Row], kind: NodeKind) -> tuple[Usage, ...]:
    """Convert job edges to usages, with the end of kind `kind`; operations of a notebook are one usage."""
    usages: dict[EntityName, Usage] = {}
    for row in rows:
        name = EntityName(row[f"{kind}_namespace"], row[f"{kind}_name"])
        node = display_job(name) if kind == "job" else name
        usages.setdefault(
            node,
            Usage(
                node=node,
                at=from_epoch_micros(row["last_event_at"]),
                run_uuid=row["last_run_uuid"],
                state=row["state"],
                is_implied=bool(row["is_implied"]),
            ),
        )
    return tuple(usages.values())


def display_job(job: EntityName) -> EntityName:
    """Return the job to display: the notebook for `<notebook>/<cell>/<operation>`."""
    return EntityName(job.namespace, job.name.rsplit("/", 2)[0]) if job.namespace == NOTEBOOK_NAMESPACE else job


def to_raw(facets: dict[str, bytes]) -> Facets:
    """Wrap facets as raw JSON, without decoding them."""
    return {name: Raw(body) for name, body in facets.items()}
