"""Opening JSON documents: what is no sound document is rejected, in the same words for every stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Raw

from clew.events.rejection import Reason, RejectedError

T = TypeVar("T")
# A large document may be a view of a file, or stand in another document.
Document = bytes | memoryview | Raw

_decode_parts = msgspec.json.Decoder(dict[str, Raw]).decode


def opened(body: Document, decode: Callable[[Document], T], salvage: Callable[[dict[str, Raw]], T]) -> T:
    """Decode a document that is text; one that is sound JSON but not as expected is salvaged from its parts."""
    try:
        try:
            return decode(body)
        except msgspec.ValidationError:
            # A first look ends at the first flaw: what stands behind it has not been seen yet.
            return salvage(_parts(body))
    except msgspec.DecodeError as fault:
        raise RejectedError(Reason.NOT_JSON, str(fault)) from None
    except RecursionError:
        raise RejectedError(Reason.TOO_DEEP, "the JSON is nested too deeply to be read") from None


def part(raw: Raw | None, decode: Callable[[Raw], T]) -> T | None:
    """A part of a document, or None where it is absent or not as expected."""
    if raw is None:
        return None
    try:
        return decode(raw)
    except msgspec.ValidationError:
        return None


def require_text(body: Document) -> None:
    """Reject what is no UTF-8: parts of a document are passed on unread, so its bytes must be known to be text."""
    if isinstance(body, bytes) and body.isascii():
        return
    try:
        str(body, "utf-8")
    except UnicodeDecodeError as fault:
        raise RejectedError(Reason.NOT_UTF8, f"byte {fault.start} is no UTF-8") from None


def _parts(body: Document) -> dict[str, Raw]:
    try:
        return _decode_parts(body)
    except msgspec.ValidationError:
        raise RejectedError(Reason.NOT_AN_OBJECT, "the event is JSON, but no object") from None
