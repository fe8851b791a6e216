"""Whether a server is alive."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response


async def healthz(_: Request) -> Response:
    """Answered as long as the process lives."""
    return PlainTextResponse("ok\n")
