"""`/api/v2/pages`: JSON endpoints of the web UI. They change with the UI and are not part of the public API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeAlias, TypeVar

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from clew.api.middleware import struct_response
from clew.api.v2.operation import RequestParameters, parse_parameters, parse_timestamp
from clew.data_dir import LakeLocation
from clew.errors import MalformedError
from clew.index.queries.reader import IndexReader
from clew.index.visibility import NameMask
from clew.query.context import QueryResources
from clew.query.diff import RunChanges, compare_runs
from clew.query.notebooks.session import get_notebook_run, list_sessions
from clew.query.pages import graph
from clew.query.pages.entities import build_dataset_view, build_job_view, build_run_changes, build_run_view
from clew.query.pages.graph import Side
from clew.query.pages.lists import (
    EntityName,
    EventFilter,
    build_activity,
    list_datasets,
    list_jobs,
    list_runs,
    query_events,
    read_event,
    search_all,
)

MAX_PAGE_LIMIT = 500
_PageLimit: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_PAGE_LIMIT)]
P = TypeVar("P", bound=Struct)


class _ListParameters(RequestParameters):
    text: str = ""
    state: str = ""
    limit: _PageLimit = 50


class _NameParameters(RequestParameters):
    namespace: str
    name: str


class _RunParameters(RequestParameters):
    run_uuid: str


class _ChangesParameters(RequestParameters):
    session_id: str
    since: str | None = None


_Position: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class _DiffParameters(RequestParameters):
    before: str
    after: str


class _SearchParameters(RequestParameters):
    text: str = ""


class _GraphParameters(RequestParameters):
    node: str
    to: str | None = None
    open: tuple[str, ...] = ()
    depth: Annotated[int, Meta(ge=1, le=graph.MAX_DEPTH)] = 1
    as_of: str = ""
    group: bool = False


class _EventParameters(EventFilter, frozen=True, forbid_unknown_fields=True):
    before: _Position | None = None
    limit: _PageLimit = 50


class _EventPosition(RequestParameters):
    stream: str
    seq: _Position


@dataclass(frozen=True)
class UiDependencies:
    """Data sources of the web UI: query resources, lake and pipeline status."""

    resources: QueryResources
    lake: LakeLocation
    status: Callable[[], Struct]


def ui_routes(dependencies: UiDependencies) -> list[Route]:
    """Create the routes of all views."""
    lake, resources = dependencies.lake, dependencies.resources

    def route(path: str, kind: type[P], build: Callable[[P], Struct]) -> Route:
        def endpoint(request: Request) -> Response:
            return struct_response(build(_parse_request(kind, request)))

        return Route(f"/api/v2/pages/{path}", endpoint)

    def index_route(path: str, kind: type[P], build: Callable[[IndexReader, P], Struct]) -> Route:
        def endpoint(request: Request) -> Response:
            values = _parse_request(kind, request)
            with resources.reader() as index:
                return struct_response(build(index, values), is_truncated=index.has_truncated_facets)

        return Route(f"/api/v2/pages/{path}", endpoint)

    def mask() -> NameMask | None:
        if not resources.namespaces:
            return None
        with resources.reader() as index:
            return index.mask

    return [
        index_route("activity", RequestParameters, lambda index, _: build_activity(index)),
        index_route("datasets", _ListParameters, lambda index, values: list_datasets(index, values.text, values.limit)),
        index_route("jobs", _ListParameters, lambda index, values: list_jobs(index, values.text, values.limit)),
        index_route(
            "runs", _ListParameters, lambda index, values: list_runs(index, values.text, values.state, values.limit)
        ),
        index_route("dataset", _NameParameters, lambda index, values: build_dataset_view(index, _name(values))),
        index_route("job", _NameParameters, lambda index, values: build_job_view(index, _name(values))),
        index_route("run/{runUuid}", _RunParameters, lambda index, values: build_run_view(index, values.run_uuid)),
        index_route("changes/{sessionId}", _ChangesParameters, _changes),
        index_route(
            "diff",
            _DiffParameters,
            lambda index, values: build_run_changes(index, lake, values.before, values.after),
        ),
        index_route("search", _SearchParameters, lambda index, values: search_all(index, resources, values.text)),
        index_route("graph", _GraphParameters, _graph),
        route("events", _EventParameters, lambda values: query_events(lake, values, mask())),
        route(
            "events/{stream}/{seq}", _EventPosition, lambda values: read_event(lake, values.stream, values.seq, mask())
        ),
        route("health", RequestParameters, lambda _: dependencies.status()),
    ]


def _parse_request(kind: type[P], request: Request) -> P:
    values = {**request.query_params, **request.path_params}
    if "open" in values:
        values["open"] = request.query_params.getlist("open")
    return parse_parameters(kind, values)


def _name(values: _NameParameters) -> EntityName:
    return EntityName(values.namespace, values.name)


class NoPreviousRun(Struct, frozen=True):
    """Response for a notebook run without an earlier run."""

    before: None = None


def _changes(index: IndexReader, values: _ChangesParameters) -> RunChanges | NoPreviousRun:
    """Compare a notebook run with the previous one, or with `since`."""
    after, since = get_notebook_run(index, values.session_id), values.since
    if since is None:
        runs = [session for session in list_sessions(index) if session.notebook == after.notebook]
        sessions = [session.session_id for session in runs]
        position = sessions.index(after.session_id)
        since = sessions[position + 1] if position + 1 < len(sessions) else None
    return NoPreviousRun() if since is None else compare_runs(get_notebook_run(index, since), after)


def _graph(index: IndexReader, values: _GraphParameters) -> Struct:
    node = graph.parse_node_id(values.node)
    as_of = parse_timestamp("asOf", values.as_of) if values.as_of else None
    if values.to is not None:
        return graph.build_path_graph(index, node, graph.parse_node_id(values.to), as_of=as_of)
    expansions = tuple(map(_expansion, values.open))
    return graph.build_lineage_graph(
        index, graph.GraphRequest(node, expansions, values.depth, as_of, is_grouped=values.group)
    )


def _expansion(text: str) -> graph.Expansion:
    side, _, node = text.partition(":")
    sides: dict[str, Side] = {"up": "up", "down": "down"}
    if side not in sides:
        raise MalformedError(f"Invalid value {text[:100]!r} for open.", hint="Use up:NODE or down:NODE.")
    return graph.Expansion(sides[side], graph.parse_node_id(node))
