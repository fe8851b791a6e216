"""The questions to a server's API: a path, parameters, and the type of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Literal, TypeVar
from urllib.parse import quote

import msgspec

from clew.api.operations.changes import Difference, FacetHistory, Facets
from clew.api.operations.entities import DatasetList, JobList, RunList, Status
from clew.api.operations.search import SearchPage
from clew.errors import ClewError
from clew.query.documents import DatasetDocument, JobDocument, RunDocument
from clew.query.graph.lens import RollUp
from clew.query.graph.walk import Direction
from clew.query.lineage import Impact, Lineage, Path

T = TypeVar("T")
Value = str | int | bool | datetime | None


class AnswerError(ClewError):
    """What a server said in place of an answer; `status` is that of HTTP."""

    def __init__(self, message: str, *, status: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class _Problem(msgspec.Struct):
    title: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Question(Generic[T]):
    """Something to ask, and what the answer is read as."""

    path: str
    values: Mapping[str, Value]
    answer: type[T]

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters as an address has them; what was left out is left to the server."""
        return {name: _text(value) for name, value in self.values.items() if value is not None and value is not False}

    def read(self, status: int, body: bytes) -> T:
        """The answer; what a server refuses is an error, in its own words."""
        if status == 200:
            try:
                return msgspec.json.decode(body, type=self.answer)
            except msgspec.DecodeError as fault:
                message = f"The answer to {self.path} cannot be read: {fault}."
                hint = "Is it a server of another version? Compare `clew --version` on both sides."
                raise AnswerError(message, status=status, hint=hint) from fault
        try:
            said = msgspec.json.decode(body, type=_Problem)
        except msgspec.DecodeError:
            said = _Problem()
        message = said.title or f"The server answered {self.path} with status {status}."
        raise AnswerError(message, status=status, hint=said.detail or None)


def lineage(
    node_id: str,
    column: str | None = None,
    *,
    direction: Direction = "both",
    depth: int | None = None,
    limit: int | None = None,
    as_of: datetime | None = None,
    roll_up: RollUp = "none",
    frames: bool = False,
) -> Question[Lineage]:
    """What a dataset, a job, a column or a run was made from, and what was made of it."""
    values: dict[str, Value] = {
        "nodeId": node_id,
        "column": column,
        "direction": direction,
        "depth": depth,
        "limit": limit,
        "asOf": as_of,
        "rollUp": roll_up,
        "frames": frames,
    }
    return Question("/api/v2/lineage", values, Lineage)


def path(
    start: str, end: str, *, as_of: datetime | None = None, roll_up: RollUp = "none", frames: bool = False
) -> Question[Path]:
    """A shortest way between two jobs or datasets, along the flow of data."""
    values: dict[str, Value] = {"from": start, "to": end, "asOf": as_of, "rollUp": roll_up, "frames": frames}
    return Question("/api/v2/path", values, Path)


def impact(
    node_id: str,
    column: str | None = None,
    *,
    depth: int | None = None,
    limit: int | None = None,
    frames: bool = False,
) -> Question[Impact]:
    """What a change of a column, or of a dataset, would reach."""
    values: dict[str, Value] = {"nodeId": node_id, "column": column, "depth": depth, "limit": limit, "frames": frames}
    return Question("/api/v2/impact", values, Impact)


def diff(left: str | None = None, right: str | None = None, *, node_id: str | None = None) -> Question[Difference]:
    """What differs between two runs, or between two versions of a dataset."""
    return Question("/api/v2/diff", {"left": left, "right": right, "nodeId": node_id}, Difference)


def search(
    words: str,
    *,
    kind: Literal["dataset", "job"] | None = None,
    namespace: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Question[SearchPage]:
    """Jobs and datasets by names, columns, descriptions, tags, code and facets; runs by their id."""
    values: dict[str, Value] = {"q": words, "kind": kind, "namespace": namespace, "limit": limit, "cursor": cursor}
    return Question("/api/v2/search", values, SearchPage)


def dataset(node_id: str) -> Question[DatasetDocument]:
    """All that is known of a dataset."""
    return Question("/api/v2/dataset", {"nodeId": node_id}, DatasetDocument)


def job(node_id: str) -> Question[JobDocument]:
    """All that is known of a job."""
    return Question("/api/v2/job", {"nodeId": node_id}, JobDocument)


def run(run_id: str) -> Question[RunDocument]:
    """All that is known of a run."""
    return Question(f"/api/v2/runs/{quote(run_id, safe='')}", {}, RunDocument)


def datasets(
    namespace: str | None = None, *, limit: int | None = None, cursor: str | None = None
) -> Question[DatasetList]:
    """Datasets by name, page by page."""
    return Question("/api/v2/datasets", {"namespace": namespace, "limit": limit, "cursor": cursor}, DatasetList)


def jobs(namespace: str | None = None, *, limit: int | None = None, cursor: str | None = None) -> Question[JobList]:
    """Jobs by name, page by page."""
    return Question("/api/v2/jobs", {"namespace": namespace, "limit": limit, "cursor": cursor}, JobList)


def runs(job_id: str, *, limit: int | None = None, cursor: str | None = None) -> Question[RunList]:
    """Runs of a job, the newest first, page by page."""
    return Question("/api/v2/runs", {"nodeId": job_id, "limit": limit, "cursor": cursor}, RunList)


def facets(node_id: str, *, name: str | None = None, version: str | None = None) -> Question[Facets]:
    """The facets of a dataset, a job or a run."""
    return Question("/api/v2/facets", {"nodeId": node_id, "name": name, "version": version}, Facets)


def facet_history(
    node_id: str, name: str, *, limit: int | None = None, cursor: str | None = None
) -> Question[FacetHistory]:
    """What a facet said over time, the newest first."""
    values: dict[str, Value] = {"nodeId": node_id, "name": name, "limit": limit, "cursor": cursor}
    return Question("/api/v2/facets/history", values, FacetHistory)


def status() -> Question[Status]:
    """How far the index has come."""
    return Question("/api/v2/status", {}, Status)


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else str(value)
