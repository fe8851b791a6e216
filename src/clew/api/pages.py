"""`/api/v2/pages`: the documents that the page's views are drawn from. They change with the page, not with the API."""

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

from clew.home import LakePlace
from clew.index.browsing import Browser
from clew.query.holdings import Holdings
from clew.query.notebook_runs import notebook_run, summaries
from clew.query.run_changes import RunChanges, run_changes
from clew.query.views import graph
from clew.query.views.dataset import dataset_view
from clew.query.views.events import Wanted, event_list, event_text
from clew.query.views.job import job_view
from clew.query.views.lists import activity, dataset_list, job_list, run_list
from clew.query.views.model import Name
from clew.query.views.neighbours import Node, Side
from clew.query.views.run import run_view
from clew.query.views.run_diff import run_diff
from clew.query.views.search import search

MOST_LISTED = 500


@dataclass(frozen=True)
class Views:
    """What the views ask of: the index, the graph and the search beside it, the lake, and how the pipeline does."""

    holdings: Holdings
    open_index: Callable[[], AbstractContextManager[Browser]]
    lake: LakePlace
    status: Callable[[], Struct]


def page_routes(views: Views) -> list[Route]:
    """The routes of all views."""

    def asked(answer: Callable[[Browser, Request], Struct]) -> Callable[[Request], Response]:
        def endpoint(request: Request) -> Response:
            with views.open_index() as index:
                return _json(answer(index, request))

        return endpoint

    def events(request: Request) -> Response:
        return _json(event_list(views.lake, _wanted(request)))

    def event(request: Request) -> Response:
        stream, seq = request.path_params["stream"], request.path_params["seq"]
        return _json(event_text(views.lake, stream, seq))

    def health(_: Request) -> Response:
        return _json(views.status())

    root = "/api/v2/pages"
    return [
        Route(f"{root}/activity", asked(lambda index, _: activity(index))),
        Route(f"{root}/datasets", asked(lambda index, request: dataset_list(index, _text(request), _limit(request)))),
        Route(f"{root}/jobs", asked(lambda index, request: job_list(index, _text(request), _limit(request)))),
        Route(f"{root}/runs", asked(_runs)),
        Route(f"{root}/dataset", asked(lambda index, request: dataset_view(index, _name(request)))),
        Route(f"{root}/job", asked(lambda index, request: job_view(index, _name(request)))),
        Route(
            f"{root}/run/{{run_uuid}}", asked(lambda index, request: run_view(index, request.path_params["run_uuid"]))
        ),
        Route(f"{root}/changes/{{session_id}}", asked(_changes)),
        Route(f"{root}/diff", asked(lambda index, request: _diff(index, views.lake, request))),
        Route(f"{root}/search", asked(lambda index, request: search(index, views.holdings, _text(request)))),
        Route(f"{root}/graph", asked(lambda index, request: _graph(index, views.holdings, request))),
        Route(f"{root}/events", events),
        Route(f"{root}/events/{{stream}}/{{seq:int}}", event),
        Route(f"{root}/health", health),
    ]


def _runs(index: Browser, request: Request) -> Struct:
    return run_list(index, _text(request), request.query_params.get("state", ""), _limit(request))


class NoRunBefore(Struct, frozen=True):
    """There is nothing to compare a run with."""

    before: None = None


def _changes(index: Browser, request: Request) -> RunChanges | NoRunBefore:
    """What changed since the run before, or since the run that is named."""
    after = notebook_run(index, request.path_params["session_id"])
    named = request.query_params.get("since")
    if named is None:
        earlier = [one for one in summaries(index) if one.notebook == after.notebook]
        sessions = [one.session_id for one in earlier]
        place = sessions.index(after.session_id)
        named = sessions[place + 1] if place + 1 < len(sessions) else None
    return NoRunBefore() if named is None else run_changes(notebook_run(index, named), after)


def _diff(index: Browser, lake: LakePlace, request: Request) -> Struct:
    return run_diff(index, lake, _required(request, "before"), _required(request, "after"))


def _graph(index: Browser, holdings: Holdings, request: Request) -> Struct:
    values = request.query_params
    if "to" in values:
        ends = Node.of(_required(request, "node")), Node.of(values["to"])
        return graph.path_graph(index, holdings, *ends, as_of=_moment(values.get("asOf")))
    openings = tuple(_opening(text) for text in values.getlist("open"))
    return graph.lineage_graph(
        index,
        graph.Request(
            centre=Node.of(_required(request, "node")),
            openings=openings,
            depth=_number(request, "depth", 1, graph.MAX_DEPTH),
            as_of=_moment(values.get("asOf")),
            is_grouped=values.get("group") == "1",
        ),
    )


def _opening(text: str) -> graph.Opening:
    side, _, node = text.partition(":")
    sides: dict[str, Side] = {"up": "up", "down": "down"}
    if side not in sides:
        raise HTTPException(400, f"{text!r} opens nothing: write up:NODE or down:NODE.")
    return graph.Opening(sides[side], Node.of(node))


def _moment(text: str | None) -> datetime | None:
    try:
        found = None if not text else datetime.fromisoformat(text)
    except ValueError as fault:
        raise HTTPException(400, f"{text!r} is no time: write it as 2026-01-31T14:00:00Z.") from fault
    return found if found is None or found.tzinfo else found.replace(tzinfo=UTC)


def _wanted(request: Request) -> Wanted:
    values = request.query_params
    before = values.get("before")
    if before is not None and not (before.isascii() and before.isdigit()):
        raise HTTPException(400, f"{before!r} is no position of an event.")
    return Wanted(
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
    return _number(request, "limit", 50, MOST_LISTED)


def _number(request: Request, name: str, default: int, most: int) -> int:
    text = request.query_params.get(name, str(default))
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= most:
        raise HTTPException(400, f"A {name} of {text!r} is not possible: give a number from 1 to {most}.")
    return int(text)


def _name(request: Request) -> Name:
    return Name(_required(request, "namespace"), _required(request, "name"))


def _required(request: Request, name: str) -> str:
    value = request.query_params.get(name)
    if value is None:
        raise HTTPException(400, f"The parameter {name!r} is missing.")
    return value


def _json(value: Struct) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json", headers={"cache-control": "no-cache"})
