"""Requests of the API: path, parameters and response type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Literal, TypeVar
from urllib.parse import quote

import msgspec

from clew.api.v2.entities import (
    DatasetDetails,
    DatasetListResponse,
    DiffResponse,
    FacetHistory,
    FacetsResponse,
    IndexStatusResponse,
    JobDetails,
    JobListResponse,
    RunDetails,
    RunListResponse,
)
from clew.api.v2.lineage import SearchPage
from clew.errors import ClewError
from clew.query.graph.traversal import Direction
from clew.query.graph.view import RollUp
from clew.query.lineage import ImpactResult, LineageResult, PathResult

T = TypeVar("T")
Value = str | int | bool | datetime | None


class ApiError(ClewError):
    """Error response of the server; `status` is the HTTP status, 0 if the server is unreachable."""

    def __init__(self, message: str, *, status: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class _Problem(msgspec.Struct):
    title: str = ""
    detail: str = ""


@dataclass(frozen=True)
class ApiRequest(Generic[T]):
    """A GET request, and the type of its response."""

    path: str
    values: Mapping[str, Value]
    response_type: type[T]

    @property
    def params(self) -> dict[str, str]:
        """URL parameters; omitted values use the defaults of the server."""
        return {
            name: _format_value(value)
            for name, value in self.values.items()
            if value is not None and value is not False
        }

    def decode_response(self, status: int, body: bytes) -> T:
        """Decode a response; raise `ApiError` with the message of the server."""
        if status == 200:
            try:
                return msgspec.json.decode(body, type=self.response_type)
            except msgspec.DecodeError as error:
                message = f"Cannot decode the response to {self.path}: {error}."
                hint = "The server may have another version: compare `clew --version` on both sides."
                raise ApiError(message, status=status, hint=hint) from error
        try:
            problem = msgspec.json.decode(body, type=_Problem)
        except msgspec.DecodeError:
            problem = _Problem()
        message = problem.title or f"The server responded to {self.path} with status {status}."
        raise ApiError(message, status=status, hint=problem.detail or None)


def lineage_request(
    node_id: str,
    column: str | None = None,
    *,
    direction: Direction = "both",
    depth: int | None = None,
    limit: int | None = None,
    as_of: datetime | None = None,
    roll_up: RollUp = "none",
    frames: bool = False,
) -> ApiRequest[LineageResult]:
    """Return the lineage of a dataset, job, column or run."""
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
    return ApiRequest("/api/v2/lineage", values, LineageResult)


def path_request(
    start: str, end: str, *, as_of: datetime | None = None, roll_up: RollUp = "none", frames: bool = False
) -> ApiRequest[PathResult]:
    """Return a shortest path between two jobs or datasets."""
    values: dict[str, Value] = {"from": start, "to": end, "asOf": as_of, "rollUp": roll_up, "frames": frames}
    return ApiRequest("/api/v2/path", values, PathResult)


def impact_request(
    node_id: str,
    column: str | None = None,
    *,
    depth: int | None = None,
    limit: int | None = None,
    frames: bool = False,
) -> ApiRequest[ImpactResult]:
    """Return the datasets affected by a change of a column or dataset."""
    values: dict[str, Value] = {"nodeId": node_id, "column": column, "depth": depth, "limit": limit, "frames": frames}
    return ApiRequest("/api/v2/impact", values, ImpactResult)


def diff_request(
    left: str | None = None, right: str | None = None, *, node_id: str | None = None
) -> ApiRequest[DiffResponse]:
    """Compare two runs, or two versions of a dataset."""
    return ApiRequest("/api/v2/diff", {"left": left, "right": right, "nodeId": node_id}, DiffResponse)


def search_request(
    text: str,
    *,
    kind: Literal["dataset", "job"] | None = None,
    namespace: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ApiRequest[SearchPage]:
    """Search jobs and datasets by name, column, description, tag, code and facet; runs by id."""
    values: dict[str, Value] = {"q": text, "kind": kind, "namespace": namespace, "limit": limit, "cursor": cursor}
    return ApiRequest("/api/v2/search", values, SearchPage)


def dataset_request(node_id: str) -> ApiRequest[DatasetDetails]:
    """Return the details of a dataset."""
    return ApiRequest("/api/v2/dataset", {"nodeId": node_id}, DatasetDetails)


def job_request(node_id: str) -> ApiRequest[JobDetails]:
    """Return the details of a job."""
    return ApiRequest("/api/v2/job", {"nodeId": node_id}, JobDetails)


def run_request(run_id: str) -> ApiRequest[RunDetails]:
    """Return the details of a run."""
    return ApiRequest(f"/api/v2/runs/{quote(run_id, safe='')}", {}, RunDetails)


def datasets_request(
    namespace: str | None = None, *, limit: int | None = None, cursor: str | None = None
) -> ApiRequest[DatasetListResponse]:
    """List datasets by name, page by page."""
    return ApiRequest(
        "/api/v2/datasets", {"namespace": namespace, "limit": limit, "cursor": cursor}, DatasetListResponse
    )


def jobs_request(
    namespace: str | None = None, *, limit: int | None = None, cursor: str | None = None
) -> ApiRequest[JobListResponse]:
    """List jobs by name, page by page."""
    return ApiRequest("/api/v2/jobs", {"namespace": namespace, "limit": limit, "cursor": cursor}, JobListResponse)


def runs_request(job_id: str, *, limit: int | None = None, cursor: str | None = None) -> ApiRequest[RunListResponse]:
    """List the runs of a job, newest first, page by page."""
    return ApiRequest("/api/v2/runs", {"nodeId": job_id, "limit": limit, "cursor": cursor}, RunListResponse)


def facets_request(node_id: str, *, name: str | None = None, version: str | None = None) -> ApiRequest[FacetsResponse]:
    """Return the facets of a dataset, job or run."""
    return ApiRequest("/api/v2/facets", {"nodeId": node_id, "name": name, "version": version}, FacetsResponse)


def facet_history_request(
    node_id: str, name: str, *, limit: int | None = None, cursor: str | None = None
) -> ApiRequest[FacetHistory]:
    """Return the values of a facet over time, newest first."""
    values: dict[str, Value] = {"nodeId": node_id, "name": name, "limit": limit, "cursor": cursor}
    return ApiRequest("/api/v2/facets/history", values, FacetHistory)


def status_request() -> ApiRequest[IndexStatusResponse]:
    """Return the status of the index."""
    return ApiRequest("/api/v2/status", {}, IndexStatusResponse)


def _format_value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else str(value)
