"""`/api/v2/pages`: JSON endpoints of the web UI. They change with the UI and are not part of the public API."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from clew.data_dir import LakeLocation
from clew.index.queries.lists import PageQueries
from clew.query.context import QueryResources
from clew.query.diff import RunChanges, compare_runs
from clew.query.notebooks.session import get_notebook_run, list_sessions
from clew.query.pages import graph
from clew.query.pages.entities import build_dataset_view, build_job_view, build_run_changes, build_run_view
from clew.query.pages.graph import GraphNodeRef, Side
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


@dataclass(frozen=True)
class UiDependencies:
    """Data sources of the web UI: query resources, index, lake and pipeline status."""

    resources: QueryResources
    open_index: Callable[[], AbstractContextManager[PageQueries]]
    lake: LakeLocation
    status: Callable[[], Struct]


def ui_routes(dependencies: UiDependencies) -> list[Route]:
    """Create the routes of all views."""

    def from_index(build: Callable[[PageQueries, Request], Struct]) -> Callable[[Request], Response]:
        def endpoint(request: Request) -> Response:
            with dependencies.open_index() as index:
                return _json_response(build(index, request))

        return endpoint

    def list_events(request: Request) -> Response:
        return _json_response(query_events(dependencies.lake, _event_filter(request)))

    def get_event(request: Request) -> Response:
        stream, seq = request.path_params["stream"], request.path_params["seq"]
        return _json_response(read_event(dependencies.lake, stream, seq))

    def health(_: Request) -> Response:
        return _json_response(dependencies.status())

    root = "/api/v2/pages"
    return [
        Route(f"{root}/activity", from_index(lambda index, _: build_activity(index))),
        Route(
            f"{root}/datasets", from_index(lambda index, request: list_datasets(index, _text(request), _limit(request)))
        ),
        Route(f"{root}/jobs", from_index(lambda index, request: list_jobs(index, _text(request), _limit(request)))),
        Route(f"{root}/runs", from_index(_runs)),
        Route(f"{root}/dataset", from_index(lambda index, request: build_dataset_view(index, _name(request)))),
        Route(f"{root}/job", from_index(lambda index, request: build_job_view(index, _name(request)))),
        Route(
            f"{root}/run/{{run_uuid}}",
            from_index(lambda index, request: build_run_view(index, request.path_params["run_uuid"])),
        ),
        Route(f"{root}/changes/{{session_id}}", from_index(_changes)),
        Route(f"{root}/diff", from_index(lambda index, request: _diff(index, dependencies.lake, request))),
        Route(
            f"{root}/search",
            from_index(lambda index, request: search_all(index, dependencies.resources, _text(request))),
        ),
        Route(f"{root}/graph", from_index(lambda index, request: _graph(index, dependencies.resources, request))),
        Route(f"{root}/events", list_events),
        Route(f"{root}/events/{{stream}}/{{seq:int}}", get_event),
        Route(f"{root}/health", health),
    ]


def _runs(index: PageQueries, request: Request) -> Struct:
    return list_runs(index, _text(request), request.query_params.get("state", ""), _limit(request))


class NoPreviousRun(Struct, frozen=True):
    """Response for a notebook run without an earlier run."""

    before: None = None


def _changes(index: PageQueries, request: Request) -> RunChanges | NoPreviousRun:
    """Compare a notebook run with the previous one, or with `since`."""
    after = get_notebook_run(index, request.path_params["session_id"])
    since = request.query_params.get("since")
    if since is None:
        runs = [session for session in list_sessions(index) if session.notebook == after.notebook]
        sessions = [session.session_id for session in runs]
        position = sessions.index(after.session_id)
        since = sessions[position + 1] if position + 1 < len(sessions) else None
    return NoPreviousRun() if since is None else compare_runs(get_notebook_run(index, since), after)


def _diff(index: PageQueries, lake: LakeLocation, request: Request) -> Struct:
    return build_run_changes(index, lake, _required(request, "before"), _required(request, "after"))


def _graph(index: PageQueries, resources: QueryResources, request: Request) -> Struct:
    values = request.query_params
    if "to" in values:
        ends = GraphNodeRef.parse(_required(request, "node")), GraphNodeRef.parse(values["to"])
        return graph.build_path_graph(index, resources, *ends, as_of=_parse_timestamp(values.get("asOf")))
    expansions = tuple(_expansion(text) for text in values.getlist("open"))
    return graph.build_lineage_graph(
        index,
        graph.GraphRequest(
            centre=GraphNodeRef.parse(_required(request, "node")),
            expansions=expansions,
            depth=_number(request, "depth", 1, graph.MAX_DEPTH),
            as_of=_parse_timestamp(values.get("asOf")),
            is_grouped=values.get("group") == "1",
        ),
    )


def _expansion(text: str) -> graph.Expansion:
    side, _, node = text.partition(":")
    sides: dict[str, Side] = {"up": "up", "down": "down"}
    if side not in sides:
        raise HTTPException(400, f"Invalid open={text!r}: use up:NODE or down:NODE.")
    return graph.Expansion(sides[side], GraphNodeRef.parse(node))


def _parse_timestamp(text: str | None) -> datetime | None:
    try:
        timestamp = None if not text else datetime.fromisoformat(text)
    except ValueError as error:
        raise HTTPException(400, f"Invalid time {text!r}: use a time such as 2026-01-31T14:00:00Z.") from error
    return timestamp if timestamp is None or timestamp.tzinfo else timestamp.replace(tzinfo=UTC)


def _event_filter(request: Request) -> EventFilter:
    values = request.query_params
    before = values.get("before")
    if before is not None and not (before.isascii() and before.isdigit()):
        raise HTTPException(400, f"Invalid before={before!r}: use the position of an event.")
    return EventFilter(
        stream=values.get("stream", "lineage"),
        text=values.get("text", ""),
        type=values.get("type", ""),
        run=values.get("run", ""),
        before=None if before is None else int(before),
        limit=_limit(request),
    )


def _run_uuid(request: Request) -> str:
    return str(request.path_params["run_uuid"])


def _text(request: Request) -> str:
    return request.query_params.get("text", "")


def _limit(request: Request) -> int:
    return _number(request, "limit", 50, MAX_PAGE_LIMIT)


def _number(request: Request, name: str, default: int, maximum: int) -> int:
    text = request.query_params.get(name, str(default))
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= maximum:
        raise HTTPException(400, f"Invalid {name}={text!r}: use a number from 1 to {maximum}.")
    return int(text)


def _name(request: Request) -> EntityName:
    return EntityName(_required(request, "namespace"), _required(request, "name"))


def _required(request: Request, name: str) -> str:
    value = request.query_params.get(name)
    if value is None:
        raise HTTPException(400, f"Missing parameter {name!r}.")
    return value


def _json_response(value: Struct) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json", headers={"cache-control": "no-cache"})
