"""Liveness probe."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response


async def healthz(_: Request) -> Response:
    """Return 200 while the process runs."""
    return PlainTextResponse("ok\n")
