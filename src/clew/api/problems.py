"""Errors as RFC 9457 problems: what was wrong, and what to do next."""

from __future__ import annotations

import msgspec
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from clew.errors import ClewError, MalformedError, UsageError


class Problem(Struct, frozen=True):
    """The members of RFC 9457 that are used; without a `type` the status says what kind it is."""

    title: str
    status: int
    detail: str
    instance: str


def problem(request: Request, status: int, title: str, detail: str = "") -> Response:
    """A problem as a response."""
    body = msgspec.json.encode(Problem(title=title, status=status, detail=detail, instance=request.url.path))
    return Response(
        body, status_code=status, media_type="application/problem+json", headers={"cache-control": "no-store"}
    )


async def on_clew_error(request: Request, error: Exception) -> Response:
    """A wrong value or name is the caller's; anything else clew says is that it cannot answer now."""
    if not isinstance(error, ClewError):
        raise error
    status = 400 if isinstance(error, MalformedError) else 404 if isinstance(error, UsageError) else 503
    return problem(request, status, error.message, error.hint or "")


async def on_http_error(request: Request, error: Exception) -> Response:
    """What the router refuses: no such path, no such method."""
    if not isinstance(error, HTTPException):
        raise error
    return problem(request, error.status_code, error.detail, f"{request.method} {request.url.path}")


async def on_fault(request: Request, error: Exception) -> Response:
    """A fault of ours: said plainly, with its name; the log has the trace."""
    return problem(request, 500, "clew itself failed.", f"{type(error).__name__}: see the server's log.")
