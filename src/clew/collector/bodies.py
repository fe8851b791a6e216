"""Request bodies, decompressed: small ones in memory, large ones in a file."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request

from clew.collector.encodings import create_decoder
from clew.collector.spool import SpooledBody
from clew.errors import ClewError

_SPOOL_THRESHOLD_BYTES = 256 << 10


class BodyTooLargeError(ClewError):
    """Request body above the limit (HTTP 413)."""


async def read_body(request: Request, spool_folder: Path, max_bytes: int) -> bytes | SpooledBody:
    """Read and decompress the body; the caller closes a SpooledBody."""
    decoder = create_decoder(request.headers.get("content-encoding", ""))
    buffer = bytearray()
    spooled: SpooledBody | None = None
    try:
        async for chunk in request.stream():
            for data in decoder.feed(chunk):
                buffer += data
                if spooled is None and len(buffer) > _SPOOL_THRESHOLD_BYTES:
                    spooled = SpooledBody(spool_folder)
                if spooled is not None:
                    spooled.write(buffer)
                    buffer.clear()
                    check_body_size(max_bytes, spooled.bytes)
        decoder.finish()
    except BaseException:
        if spooled is not None:
            spooled.close()
        raise
    return bytes(buffer) if spooled is None else spooled


def check_body_size(limit: int, size: int) -> None:
    """Raise BodyTooLargeError above the limit."""
    if size > limit:
        hint = "Send events one by one, or raise the limit with --max-body-mb."
        raise BodyTooLargeError(f"The body is larger than {limit >> 20} MB.", hint=hint)
