"""Routes of the Marquez API."""

from __future__ import annotations

import asyncio
import gzip
import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias, cast

from starlette.types import ASGIApp, Receive, Scope, Send

from clew.api.marquez import read_handlers
from clew.api.marquez.event_handlers import TRANSITIONS, DeprecatedWriteHandlers
from clew.api.marquez.http import (
    MarquezError,
    MarquezRequest,
    MarquezResponse,
    path_segments,
    preferred_wait,
    receive_body,
    scope_path_segments,
)
from clew.api.marquez.lineage import LineageHandlers
from clew.api.marquez.read_handlers import TextSearchHandlers
from clew.api.marquez.revivals import Revivals
from clew.api.marquez.write_handlers import StoreEvent, WriteHandlers, not_collecting
from clew.api.middleware import TRUNCATED_FACETS
from clew.errors import ClewError, MalformedError, UsageError
from clew.index.backends.sqlite import DamagedIndexError, MissingIndexError
from clew.query.context import QueryResources
from clew.query.entities.catalog import Catalog
from clew.query.entities.facets import NeedsThreadError
from clew.query.entities.unindexed import EntityReference, UnindexedCatalogs
from clew.server.fast_path import RawResponse, RequestInfo

EntityKind: TypeAlias = Literal["run", "job", "dataset"]
Handler = Callable[[Catalog, MarquezRequest], MarquezResponse]

_LOG = logging.getLogger("clew.api")
_JSON = (b"content-type", b"application/json")
_TRUNCATED_FACETS = next((name.encode(), value.encode()) for name, value in TRUNCATED_FACETS.items())
_VARY = (b"vary", b"accept-encoding")
_GZIP_MIN_BYTES = 1024
# A third of the time of the default level, for 10 % more bytes.
_GZIP_LEVEL = 1
_ANY: Final = "*"
_PREFIXES: Final = ("/api/v1/", "/api/v2beta/")
# Prefixes of all inline GET routes.
_FAST_PATH_PREFIXES: Final = (b"/api/v1/jobs/", b"/api/v1/namespaces/")
# Lists and traversals take milliseconds and run in threads, so that they do not delay single documents.
_THREADS = 4
_INDEX_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Route:
    """Path pattern with its handler; an `is_inline` handler is faster than a thread switch.

    The answer about an `entity` includes events that are not indexed yet.
    """

    method: str
    pattern: tuple[str, ...]
    handler: Handler
    is_inline: bool = False
    entity: EntityKind | None = None

    def entity_reference(self, path_args: tuple[str, ...]) -> EntityReference | None:
        """Return the run, job or dataset of the path, if events that are not indexed yet can change the answer."""
        match self.entity:
            case "run":
                return "run", path_args[0]
            case "job":
                return "job", path_args[0], path_args[1]
            case "dataset":
                return "dataset", path_args[0], path_args[1]
            case None:
                return None

    def match(self, segments: list[str]) -> tuple[str, ...] | None:
        """Return the path arguments, or None if the path does not match."""
        args = []
        for pattern, segment in zip(self.pattern, segments, strict=True):
            if pattern == _ANY:
                args.append(segment)
            elif pattern != segment:
                return None
        return tuple(args)


# Lists of the runs of a job are read from the index alone, because they can be long.
_ENTITIES: Final[tuple[tuple[tuple[str, ...], EntityKind], ...]] = (
    (("v1", "jobs", "runs", _ANY), "run"),
    (("v1", "namespaces", _ANY, "jobs", _ANY), "job"),
    (("v1", "namespaces", _ANY, "datasets", _ANY), "dataset"),
)


def _route(method: str, pattern: str, handler: Handler, *, is_inline: bool = False) -> Route:
    parts = tuple(pattern.split("/"))
    kinds = (kind for prefix, kind in _ENTITIES if parts[: len(prefix)] == prefix)
    entity = None if pattern.endswith("/jobs/*/runs") else next(kinds, None)
    return Route(method, parts, handler, is_inline, entity)


def _event_route(method: str, pattern: str, handler: Handler) -> Route:
    """Create a route whose handler opens the catalogs of the entities that it needs."""
    return Route(method, tuple(pattern.split("/")), handler)


def read_routes(log: Path) -> tuple[Route, ...]:
    """Create the routes that use neither graphs nor the search index; `log` has the raw events."""
    return (
        _route("GET", "v1/jobs/runs/*", read_handlers.get_run, is_inline=True),
        _route("GET", "v1/jobs/runs/*/facets", read_handlers.get_run_facets, is_inline=True),
        _route("GET", "v1/namespaces/*/datasets/*", read_handlers.get_dataset, is_inline=True),
        _route("GET", "v1/namespaces/*/jobs/*", read_handlers.get_job, is_inline=True),
        _route("GET", "v1/namespaces", read_handlers.get_namespaces),
        _route("GET", "v1/namespaces/*", read_handlers.get_namespace),
        _route("GET", "v1/sources", read_handlers.get_sources),
        _route("GET", "v1/sources/*", read_handlers.get_source),
        _route("GET", "v1/namespaces/*/datasets", read_handlers.get_datasets),
        _route("GET", "v1/namespaces/*/datasets/*/versions", read_handlers.get_dataset_versions),
        _route("GET", "v1/namespaces/*/datasets/*/versions/*", read_handlers.get_dataset_version),
        _route("GET", "v1/jobs", read_handlers.get_jobs),
        _route("GET", "v1/namespaces/*/jobs", read_handlers.get_jobs),
        _route("GET", "v1/namespaces/*/jobs/*/versions", read_handlers.get_job_versions),
        _route("GET", "v1/namespaces/*/jobs/*/versions/*", read_handlers.get_job_version),
        _route("GET", "v1/namespaces/*/jobs/*/runs", read_handlers.get_job_runs),
        _route("GET", "v1/tags", read_handlers.get_tags),
        _route("GET", "v1/events/lineage", partial(read_handlers.get_events, log=log)),
        # Only `list_events` of marquez-python reads it.
        _route("GET", "v1/events", partial(read_handlers.get_events, log=log)),
        _route("GET", "v1/stats/lineage-events", read_handlers.get_event_stats),
        _route("GET", "v1/stats/jobs", partial(read_handlers.get_entity_stats, kind="job")),
        _route("GET", "v1/stats/datasets", partial(read_handlers.get_entity_stats, kind="dataset")),
        _route("GET", "v1/stats/sources", partial(read_handlers.get_entity_stats, kind="source")),
        _route("GET", "v1/search", read_handlers.search_names),
    )


def _graph_routes(resources: QueryResources) -> tuple[Route, ...]:
    """Create the routes that use cached graphs and the search index."""
    lineage, text_search = LineageHandlers(resources), TextSearchHandlers(resources)
    return (
        _route("GET", "v1/lineage", lineage.lineage),
        _route("GET", "v1/column-lineage", lineage.column_lineage),
        _route("GET", "v1/runlineage/upstream", lineage.upstream_runs),
        _route("GET", "v2beta/search/jobs", text_search.jobs),
        _route("GET", "v2beta/search/datasets", text_search.datasets),
    )


def _event_routes(handlers: DeprecatedWriteHandlers | None) -> tuple[Route, ...]:
    """Create the routes whose requests become OpenLineage events; without a collector, they are rejected."""
    dataset, job = "v1/namespaces/*/datasets/*", "v1/namespaces/*/jobs/*"
    if handlers is None:
        put_dataset: Handler = not_collecting
        put_job = create_run = put_dataset
        transitions = dict.fromkeys(TRANSITIONS, put_dataset)
    else:
        put_dataset, put_job, create_run = handlers.put_dataset, handlers.put_job, handlers.create_run
        transitions = {name: partial(handlers.mark_run, event_type=kind) for name, kind in TRANSITIONS.items()}
    return (
        _event_route("PUT", dataset, put_dataset),
        _event_route("PUT", job, put_job),
        _event_route("POST", f"{job}/runs", create_run),
        *(_event_route("POST", f"v1/jobs/runs/*/{name}", handler) for name, handler in transitions.items()),
        # With a collector, it handles the path before this application.
        _event_route("POST", "v1/lineage", not_collecting),
    )


def _write_routes(handlers: WriteHandlers) -> tuple[Route, ...]:
    dataset, job = "v1/namespaces/*/datasets/*", "v1/namespaces/*/jobs/*"
    return (
        _route("PUT", "v1/tags/*", handlers.put_tag),
        _route("PUT", "v1/namespaces/*", handlers.put_namespace),
        _route("PUT", "v1/sources/*", handlers.put_source),
        _route("DELETE", "v1/namespaces/*", handlers.delete_namespace),
        _route("DELETE", dataset, partial(handlers.delete, kind="dataset")),
        _route("DELETE", job, partial(handlers.delete, kind="job")),
        _route("POST", f"{dataset}/tags/*", partial(handlers.tag, kind="dataset", is_set=True)),
        _route("DELETE", f"{dataset}/tags/*", partial(handlers.tag, kind="dataset", is_set=False)),
        _route("POST", f"{job}/tags/*", partial(handlers.tag, kind="job", is_set=True)),
        _route("DELETE", f"{job}/tags/*", partial(handlers.tag, kind="job", is_set=False)),
        _route("POST", f"{dataset}/fields/*/tags/*", partial(handlers.tag_field, is_set=True)),
        _route("DELETE", f"{dataset}/fields/*/tags/*", partial(handlers.tag_field, is_set=False)),
    )


class MarquezApi:
    """ASGI application of the Marquez API."""

    def __init__(
        self,
        resources: QueryResources,
        log: Path,
        store_event: StoreEvent,
        revivals: Revivals | None = None,
        *,
        is_collecting: bool = False,
        read_wait: float = 0.0,
    ) -> None:
        self._resources = resources
        self._read_wait = read_wait
        self._is_collecting = is_collecting
        # The names of other namespaces could not be hidden.
        self._unindexed = None if resources.namespaces else UnindexedCatalogs(log, resources.unindexed_annotations)
        self._routes: dict[int, list[Route]] = {}
        on_delete = (lambda *_: None) if revivals is None else revivals.add
        write_routes = _write_routes(WriteHandlers(log, store_event, resources.unindexed_annotations, on_delete))
        event_routes = _event_routes(
            DeprecatedWriteHandlers(store_event, self._read, self._open_catalog) if is_collecting else None
        )
        for route in (*read_routes(log), *_graph_routes(resources), *write_routes, *event_routes):
            self._routes.setdefault(len(route.pattern), []).append(route)
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="clew-marquez")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        try:
            response = await self._respond(scope, receive)
        except (MarquezError, ClewError) as error:
            response = _error_response(error)
        except sqlite3.DatabaseError as error:
            response = _error_response(DamagedIndexError.of(error))
        await send({"type": "http.response.start", "status": response.status, "headers": _headers(response)})
        body = b"" if scope["method"] == "HEAD" else response.body
        await send({"type": "http.response.body", "body": body})

    def handle_fast(self, request: RequestInfo, url: bytes) -> RawResponse | None:
        """Handle an inline GET without ASGI; None for any other request."""
        if not url.startswith(_FAST_PATH_PREFIXES):
            return None
        raw, _, query = url.partition(b"?")
        try:
            route, path_args = self._match("GET", path_segments(raw)[1:])
        except MarquezError:
            return None
        if not route.is_inline:
            return None
        try:
            accepts_gzip = "gzip" in request.headers.get("accept-encoding", "")
            response = self._call(route, MarquezRequest(path_args, query), accepts_gzip, may_block=False)
        except NeedsThreadError:
            return None
        except (MarquezError, ClewError) as error:
            response = _error_response(error)
        return RawResponse(response.status, _headers(response), response.body)

    async def _respond(self, scope: Scope, receive: Receive) -> MarquezResponse:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        route, path_args = self._match(method, scope_path_segments(scope)[1:])
        body = b"" if method == "GET" else await receive_body(receive)
        request = MarquezRequest(path_args, scope["query_string"], body)
        accepts_gzip = any(name == b"accept-encoding" and b"gzip" in value for name, value in scope["headers"])
        if route.is_inline:
            with suppress(NeedsThreadError):
                return self._call(route, request, accepts_gzip, may_block=False)
        if method == "GET" and route.entity is None:
            await self._wait_for_index(preferred_wait(scope["headers"], self._read_wait))
        return await asyncio.get_running_loop().run_in_executor(
            self._executor, self._call, route, request, accepts_gzip
        )

    async def _wait_for_index(self, seconds: float) -> None:
        """Wait until the index has the events that were acknowledged before, or for a number of seconds."""
        deadline = time.monotonic() + seconds
        while seconds and time.monotonic() < deadline and not await self._is_indexed():  # noqa: ASYNC110
            # The index is written by another process.
            await asyncio.sleep(_INDEX_POLL_SECONDS)

    async def _is_indexed(self) -> bool:
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._check_indexed)

    def _check_indexed(self) -> bool:
        if self._unindexed is None:
            return True
        try:
            with self._resources.catalog() as catalog:
                return self._unindexed.is_indexed(catalog)
        except MissingIndexError:
            return self._unindexed.is_indexed(None)

    # Positional, for run_in_executor.
    def _call(
        self,
        route: Route,
        request: MarquezRequest,
        accepts_gzip: bool,  # noqa: FBT001
        *,
        may_block: bool = True,
    ) -> MarquezResponse:
        with self._catalog(route.entity_reference(request.path_args), may_block=may_block) as catalog:
            response = route.handler(catalog, request)
            if catalog.reader.has_truncated_facets:
                response = MarquezResponse(response.body, response.status, (*response.headers, _TRUNCATED_FACETS))
        if not accepts_gzip or len(response.body) < _GZIP_MIN_BYTES:
            return response
        compressed = gzip.compress(response.body, _GZIP_LEVEL, mtime=0)
        return MarquezResponse(compressed, response.status, (*response.headers, (b"content-encoding", b"gzip")))

    @contextmanager
    def _catalog(self, entity: EntityReference | None, *, may_block: bool) -> Iterator[Catalog]:
        """Acquire the catalog for a request about an entity, or about none."""
        with ExitStack() as stack:
            try:
                catalog = stack.enter_context(self._resources.catalog(may_block=may_block))
            except MissingIndexError:
                # The pipeline creates the index with the first events.
                if not self._is_collecting or self._unindexed is None:
                    raise
                catalog = None
            events = None if entity is None or self._unindexed is None else self._unindexed.find_events(catalog, entity)
            if self._unindexed is not None and (events or catalog is None):
                if not may_block:
                    raise NeedsThreadError
                catalog = stack.enter_context(self._unindexed.open(catalog, events or ()))
            yield cast("Catalog", catalog)

    def _open_catalog(self, entity: EntityReference) -> AbstractContextManager[Catalog]:
        return self._catalog(entity, may_block=True)

    def _read(self, *segments: str) -> MarquezResponse:
        """Return the response to a GET request by path segments."""
        route, path_args = self._match("GET", ["v1", *segments])
        with self._catalog(route.entity_reference(path_args), may_block=True) as catalog:
            return route.handler(catalog, MarquezRequest(path_args, b""))

    def _match(self, method: str, segments: list[str]) -> tuple[Route, tuple[str, ...]]:
        methods = set()
        for route in self._routes.get(len(segments), ()):
            path_args = route.match(segments)
            if path_args is not None:
                if route.method == method:
                    return route, path_args
                methods.add(route.method)
        if methods:
            raise MarquezError(405, f"HTTP 405 Method Not Allowed: use {', '.join(sorted(methods))}.")
        raise MarquezError(404, "HTTP 404 Not Found")


def _error_response(error: MarquezError | ClewError) -> MarquezResponse:
    if isinstance(error, ClewError):
        status = 400 if isinstance(error, MalformedError) else 404 if isinstance(error, UsageError) else 503
        error = MarquezError(status, str(error).replace("\n", " "))
    return error.response()


def _headers(response: MarquezResponse) -> list[tuple[bytes, bytes]]:
    return [_JSON, _VARY, (b"content-length", b"%d" % len(response.body)), *response.headers]


class MarquezMiddleware:
    """Handles Marquez paths before other middleware, whose layers take longer than a document."""

    def __init__(self, app: ASGIApp, marquez: MarquezApi) -> None:
        self._app = app
        self._marquez = marquez

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Dispatch a request."""
        is_marquez = scope["type"] == "http" and scope["path"].startswith(_PREFIXES)
        await (self._marquez if is_marquez else self._app)(scope, receive, send)
