"""The body of a request, inflated: in memory as long as it is small, else in a file."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request

from clew.collector.encodings import inflater
from clew.collector.spool import Spooled
from clew.errors import ClewError

_SPOOL_BYTES = 256 << 10


class TooLargeError(ClewError):
    """A body beyond the limit."""


async def read_body(request: Request, spool: Path, most_bytes: int) -> bytes | Spooled:
    """All of it; whoever gets it as a file must close that."""
    inflating = inflater(request.headers.get("content-encoding", ""))
    held = bytearray()
    spooled: Spooled | None = None
    try:
        async for chunk in request.stream():
            for piece in inflating.feed(chunk):
                held += piece
                if spooled is None and len(held) > _SPOOL_BYTES:
                    spooled = Spooled(spool)
                if spooled is not None:
                    spooled.add(held)
                    held.clear()
                    require_within(most_bytes, spooled.bytes)
        inflating.finish()
    except BaseException:
        if spooled is not None:
            spooled.close()
        raise
    return bytes(held) if spooled is None else spooled


def require_within(limit: int, size: int) -> None:
    """Refuse what is larger."""
    if size > limit:
        hint = "Send events one by one; the largest body can be set with --max-body-mb."
        raise TooLargeError(f"The body is larger than {limit >> 20} MB.", hint=hint)
