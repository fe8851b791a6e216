"""The web application: the page, what it is drawn from, and whether it is alive."""

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
from clew.api.problems import on_clew_error, on_fault, on_http_error
from clew.api.source import OpenSource
from clew.errors import ClewError
from clew.serving.health import healthz

_POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'self'"
_HEADERS = {"content-security-policy": _POLICY, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
# A built file's name holds the hash of its content: what has that name never changes.
_FOREVER = {"cache-control": "public, max-age=31536000, immutable"}


def create_app(
    open_source: OpenSource, more: Sequence[BaseRoute] = (), closed: Sequence[Callable[[], None]] = ()
) -> Starlette:
    """The application, answering from whatever `open_source` opens for a request; `more` are routes beside its own.

    At the end of the server, `closed` are called.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        for close in closed:
            close()

    return Starlette(
        routes=[
            Route("/", _page),
            Route("/assets/{name}", _asset),
            Route("/healthz", healthz),
            *notebook_run_routes(open_source),
            *more,
        ],
        middleware=[Middleware(GZipMiddleware, minimum_size=1024, compresslevel=5)],
        exception_handlers={ClewError: on_clew_error, HTTPException: on_http_error, 500: on_fault},
        lifespan=lifespan,
    )


def _page(_: Request) -> Response:
    return Response(index_html(), media_type="text/html", headers={**_HEADERS, "cache-control": "no-cache"})


def _asset(request: Request) -> Response:
    path = STATIC / "assets" / Path(request.path_params["name"]).name
    if not path.is_file():
        raise HTTPException(404, "There is no such file.")
    return FileResponse(path, headers=_FOREVER)
