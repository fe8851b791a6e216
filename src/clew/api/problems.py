"""Error responses as RFC 9457 problem details."""

from __future__ import annotations

import msgspec
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from clew.errors import ClewError, MalformedError, UsageError


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


async def on_clew_error(request: Request, error: Exception) -> Response:
    """Map a ClewError to 400 (malformed value), 404 (unknown name) or 503."""
    if not isinstance(error, ClewError):
        raise error
    status = 400 if isinstance(error, MalformedError) else 404 if isinstance(error, UsageError) else 503
    return problem_response(request, status, error.message, error.hint or "")


async def on_http_error(request: Request, error: Exception) -> Response:
    """Convert an HTTPException of a route or the router."""
    if not isinstance(error, HTTPException):
        raise error
    return problem_response(request, error.status_code, error.detail, f"{request.method} {request.url.path}")


async def on_server_error(request: Request, error: Exception) -> Response:
    """Return 500 with the name of the exception; the log has the traceback."""
    return problem_response(request, 500, "Internal server error.", f"{type(error).__name__}: see the server log.")
