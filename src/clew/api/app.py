"""Starlette application: web UI, API routes and liveness probe."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route

from clew.api.assets import STATIC, index_html
from clew.api.notebook_runs import notebook_run_routes
from clew.api.page_redirect import PageRedirect
from clew.api.problems import on_clew_error, on_http_error, on_server_error
from clew.api.source import OpenRunSource
from clew.errors import ClewError
from clew.serving.health import healthz

_POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'self'"
_HEADERS = {"content-security-policy": _POLICY, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
# File names contain a content hash.
_IMMUTABLE = {"cache-control": "public, max-age=31536000, immutable"}


def create_app(
    open_source: OpenRunSource, extra_routes: Sequence[BaseRoute] = (), on_shutdown: Sequence[Callable[[], None]] = ()
) -> Starlette:
    """Create the application. `open_source` is called for each request.

    `on_shutdown` callbacks run when the server stops.
    """

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
            *notebook_run_routes(open_source),
            *extra_routes,
            PageRedirect(),
        ],
        middleware=[Middleware(GZipMiddleware, minimum_size=1024, compresslevel=5)],
        exception_handlers={ClewError: on_clew_error, HTTPException: on_http_error, 500: on_server_error},
        lifespan=lifespan,
    )


def _index(_: Request) -> Response:
    return Response(index_html(), media_type="text/html", headers={**_HEADERS, "cache-control": "no-cache"})


def _asset(request: Request) -> Response:
    path = STATIC / "assets" / Path(request.path_params["name"]).name
    if not path.is_file():
        raise HTTPException(404, "File not found.")
    return FileResponse(path, headers=_IMMUTABLE)
