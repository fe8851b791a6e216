"""Authentication middleware and error responses (RFC 9457)."""

from __future__ import annotations

import sqlite3
from typing import Final

import msgspec
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from clew.errors import ClewError, MalformedError, UsageError
from clew.index.backends.sqlite import DamagedIndexError
from clew.server.auth import CHALLENGE, Authenticator, ForbiddenError, Principal, Scope, UnauthenticatedError
from clew.server.fast_path import GetHandler, RawResponse, RequestInfo

# Header of an answer without all facets: a backfill is pending, and there are too many events to parse on demand.
TRUNCATED_FACETS: Final = {"clew-facets": "incomplete"}


class Problem(Struct, frozen=True):
    """Problem details (RFC 9457); without a `type`, the status identifies the problem."""

    title: str
    status: int
    detail: str
    instance: str


def problem_response(request: Request, status: int, title: str, detail: str = "") -> Response:
    """Create a problem details response."""
    body = msgspec.json.encode(Problem(title=title, status=status, detail=detail, instance=request.url.path))
    return Response(
        body, status_code=status, media_type="application/problem+json", headers={"cache-control": "no-store"}
    )


def struct_response(value: Struct, *, is_truncated: bool = False) -> Response:
    """Create a response that clients revalidate, since the data changes."""
    headers = {"cache-control": "no-cache", **(TRUNCATED_FACETS if is_truncated else {})}
    return Response(msgspec.json.encode(value), media_type="application/json", headers=headers)


async def on_clew_error(request: Request, error: Exception) -> Response:
    """Map a ClewError to 400 (malformed value), 404 (unknown name) or 503."""
    if not isinstance(error, ClewError):
        raise error
    status = 400 if isinstance(error, MalformedError) else 404 if isinstance(error, UsageError) else 503
    return problem_response(request, status, error.message, error.hint or "")


async def on_index_error(request: Request, error: Exception) -> Response:
    """Map an error of SQLite, such as a damaged file, to 503."""
    if not isinstance(error, sqlite3.Error):
        raise error
    return await on_clew_error(request, DamagedIndexError.of(error))


async def on_http_error(request: Request, error: Exception) -> Response:
    """Convert an HTTPException of a route or the router."""
    if not isinstance(error, HTTPException):
        raise error
    return problem_response(request, error.status_code, error.detail, f"{request.method} {request.url.path}")


async def on_server_error(request: Request, error: Exception) -> Response:
    """Return 500 with the name of the exception, or 503 for a damaged file of the lake; the log has the traceback."""
    # Not by their classes: the server loads these modules only when it reads the lake.
    if type(error).__module__.partition(".")[0] in {"pyarrow", "deltalake", "_internal"}:
        detail = "Run `clew doctor` to find damaged files, and `clew doctor --repair` to write them again."
        return problem_response(request, 503, "The lake cannot be read.", detail)
    return problem_response(request, 500, "Internal server error.", f"{type(error).__name__}: see the server log.")


_READ_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))


class AuthMiddleware:
    """Requires authentication for `/api/`; the web UI's static files are public."""

    def __init__(self, app: ASGIApp, authenticator: Authenticator) -> None:
        self._app = app
        self._authenticator = authenticator

    async def __call__(self, connection: Connection, receive: Receive, send: Send) -> None:
        """Authenticate a request and pass it on."""
        if connection["type"] == "http" and connection["path"].startswith("/api/"):
            request = Request(connection)
            try:
                await self._authenticate(request)
            except (UnauthenticatedError, ForbiddenError) as error:
                await _error_response(request, error)(connection, receive, send)
                return
        await self._app(connection, receive, send)

    async def _authenticate(self, request: Request) -> None:
        scope = Scope.READ if request.method in _READ_METHODS else Scope.WRITE
        _require_unrestricted(await self._authenticator.authenticate(request, scope))


def authenticated_read(handler: GetHandler, authenticator: Authenticator) -> GetHandler | None:
    """Wrap a fast-path handler; a request without access falls back to the ASGI path, which returns the error."""

    def handle(request: RequestInfo, url: bytes) -> RawResponse | None:
        try:
            _require_unrestricted(authenticator.authenticate_key(request, Scope.READ))
        except (UnauthenticatedError, ForbiddenError):
            return None
        return handler(request, url)

    return handle if authenticator.is_synchronous else None


def _require_unrestricted(principal: Principal) -> None:
    # Lineage crosses namespaces, so a response cannot be limited to one.
    if not principal.is_unrestricted:
        hint = "Ask the administrator for a key without --namespace."
        raise ForbiddenError(
            f"{principal.name} is limited to namespaces; the API needs an unrestricted key.", hint=hint
        )


def _error_response(request: Request, error: ClewError) -> ASGIApp:
    is_unauthenticated = isinstance(error, UnauthenticatedError)
    response = problem_response(request, 401 if is_unauthenticated else 403, error.message, error.hint or "")
    if is_unauthenticated:
        response.headers.update(CHALLENGE)
    return response
