"""The API application: routes, redirects to the web UI, dispatch of POST requests to the collector."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from clew.api.middleware import on_clew_error, on_http_error, on_index_error, on_server_error
from clew.api.static_files import STATIC, index_html
from clew.errors import ClewError
from clew.server.run import healthz

# Unknown paths below these are errors for programs, not pages.
_EXCLUDED: Final = ("/api/", "/assets/")


class PageRedirect(Route):
    """The last route: match any other path that a browser asks for as a page."""

    def __init__(self) -> None:
        super().__init__("/{path:path}", redirect_to_hash, include_in_schema=False)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match GET requests that accept HTML."""
        match, child_scope = super().matches(scope)
        if match is not Match.FULL or f"{scope['path']}/".startswith(_EXCLUDED):
            return Match.NONE, {}
        accepts_html = "text/html" in Request(scope).headers.get("accept", "")
        return (match, child_scope) if accepts_html else (Match.NONE, {})


def redirect_to_hash(request: Request) -> Response:
    """Redirect `/datasets/wh/orders?x=1` to `/#/datasets/wh/orders?x=1`.

    The location is relative, so that it also works behind a path prefix.
    """
    # The raw path is still percent-encoded: a slash inside a name stays apart from one between names.
    raw_path = request.scope.get("raw_path") or request.url.path.encode()
    path = raw_path.decode("ascii", "replace").partition("?")[0]
    root = "../" * (path.count("/") - 1) or "./"
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"{root}#{path.rstrip('/')}{query}", status_code=302)


# Paths of the collector by method; GET on the POST paths is Marquez's read API.
_COLLECTOR_PATHS = {
    "POST": ("/api/v1/lineage", "/api/v1/lineage/batch", "/api/v1/events/runtime", "/api/v1/events/dataframe"),
    "GET": ("/readyz", "/metrics"),
}


class CollectorDispatch:
    """Passes events, monitoring and lifespan to the collector, all other requests to the API.

    `on_shutdown` is called when the server stops.
    """

    def __init__(self, api: ASGIApp, collector: ASGIApp, on_shutdown: Callable[[], None] = lambda: None) -> None:
        self._api = api
        self._collector = collector
        self._on_shutdown = on_shutdown

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Dispatch a request."""
        paths = _COLLECTOR_PATHS.get(scope["method"], ()) if scope["type"] == "http" else ()
        is_collector = scope["type"] == "lifespan" or scope.get("path") in paths
        try:
            await (self._collector if is_collector else self._api)(scope, receive, send)
        finally:
            if scope["type"] == "lifespan":
                self._on_shutdown()


_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; font-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
)
_HEADERS = {"content-security-policy": _POLICY, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
# File names contain a content hash.
_IMMUTABLE = {"cache-control": "public, max-age=31536000, immutable"}


def create_app(routes: Sequence[BaseRoute], on_shutdown: Sequence[Callable[[], None]] = ()) -> Starlette:
    """Create the application; `on_shutdown` callbacks run when the server stops."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        for callback in on_shutdown:
            callback()

    return Starlette(
        routes=[
            Route("/", _index),
            Route("/assets/{name}", _asset),
            Route("/healthz", healthz),
            *routes,
            PageRedirect(),
        ],
        middleware=[Middleware(GZipMiddleware, minimum_size=1024, compresslevel=5)],
        exception_handlers={
            ClewError: on_clew_error,
            sqlite3.DatabaseError: on_index_error,
            HTTPException: on_http_error,
            500: on_server_error,
        },
        lifespan=lifespan,
    )


def _index(_: Request) -> Response:
    return Response(index_html(), media_type="text/html", headers={**_HEADERS, "cache-control": "no-cache"})


def _asset(request: Request) -> Response:
    path = STATIC / "assets" / Path(request.path_params["name"]).name
    try:
        is_file = path.is_file()
    except OSError:
        # The name is longer than a file name can be.
        is_file = False
    if not is_file:
        raise HTTPException(404, "File not found.")
    return FileResponse(path, headers=_IMMUTABLE)
