"""Tolerant decoding of JSON documents, and the reasons to reject an event."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import fields


class RejectionReason(StrEnum):
    """Reason why an event is rejected."""

    NOT_JSON = "not_json"
    NOT_UTF8 = "not_utf8"
    NOT_AN_OBJECT = "not_an_object"
    TOO_DEEP = "too_deep"
    NO_TIME = "no_time"
    NO_IDENTITY = "no_identity"
    INVALID_NAME = "invalid_name"
    RESERVED_NAME = "reserved_name"
    UNKNOWN_SCHEMA = "unknown_schema"
    CORRUPT_RECORD = "corrupt_record"

    @property
    def is_permanent(self) -> bool:
        """True if no later version of clew could accept the event."""
        return self in {
            RejectionReason.RESERVED_NAME,
            RejectionReason.NOT_JSON,
            RejectionReason.NOT_UTF8,
            RejectionReason.NOT_AN_OBJECT,
            RejectionReason.TOO_DEEP,
            RejectionReason.CORRUPT_RECORD,
        }


class RejectedError(ValueError):
    """Raised for an event that goes to the dead letters."""

    def __init__(self, reason: RejectionReason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


# Keys of the index and of job versions join names with these.
_SEPARATORS = re.compile(r"[\x1d-\x1f]")


def is_name(text: str) -> bool:
    """Return whether a text can identify an entity."""
    return text != "" and (text.isprintable() or _SEPARATORS.search(text) is None)


def require_name(path: str, text: str) -> None:
    """Reject an event with an invalid identifier at a path."""
    if not is_name(text):
        problem = "has a separator (U+001D to U+001F)" if text else "is empty"
        raise RejectedError(RejectionReason.INVALID_NAME, f"{path} {problem}")


T = TypeVar("T")
StructT = TypeVar("StructT", bound=Struct)
Decode = Callable[[Raw], Any]
# A large document may be a view of a file, or a member of another document.
Document = bytes | memoryview | Raw

decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
decode_list = msgspec.json.Decoder(list[Raw]).decode
decode_str = msgspec.json.Decoder(str).decode


def decode_or_salvage(body: Document, decode: Callable[[Document], T], salvage: Callable[[dict[str, Raw]], T]) -> T:
    """Decode a UTF-8 document; if it is valid JSON of another shape, salvage its valid members."""
    try:
        try:
            return decode(body)
        except msgspec.ValidationError:
            # `decode` stops at the first error: the rest of the document is still unchecked.
            return salvage(_decode_fields(body))
    except msgspec.DecodeError as error:
        raise RejectedError(RejectionReason.NOT_JSON, str(error)) from None
    except RecursionError:
        raise RejectedError(RejectionReason.TOO_DEEP, "the JSON is nested too deeply") from None


def decode_optional(raw: Raw | None, decode: Callable[[Raw], T]) -> T | None:
    """Decode a member of a document; None if it is absent, of another type, or has a number out of range."""
    if raw is None:
        return None
    try:
        return decode(raw)
    except msgspec.DecodeError:
        return None


def decode_members(raw: Raw | None) -> dict[str, Raw]:
    """Decode the members of an object; another value has none."""
    return decode_optional(raw, decode_object) or {}


def salvage_object(
    kind: type[StructT], raw: Raw | None, decoders: Mapping[str, Decode] | None = None
) -> StructT | None:
    """Decode the valid members of an object as `salvage_struct` does; another value has no members."""
    return salvage_struct(kind, decode_members(raw), decoders)


def salvage_struct(
    kind: type[StructT],
    members: dict[str, Raw],
    decoders: Mapping[str, Decode] | None = None,
    *,
    is_strict: bool = True,
) -> StructT | None:
    """Decode the valid members; None if a required one is missing. `decoders` replace those of the fields' types."""
    values = {}
    for name, member, is_required, decode in _field_decoders(kind, is_strict):
        if member in members:
            value = decode_optional(members[member], decoders[name] if decoders and name in decoders else decode)
            if value is not None:
                values[name] = value
        if is_required and name not in values:
            return None
    return kind(**values)


@cache
def _field_decoders(kind: type[Struct], is_strict: bool) -> list[tuple[str, str, bool, Decode]]:  # noqa: FBT001
    return [
        (info.name, info.encode_name, info.required, msgspec.json.Decoder(info.type, strict=is_strict).decode)
        for info in fields(kind)
    ]


def require_utf8(body: Document) -> None:
    """Reject invalid UTF-8: raw members are passed on without being decoded."""
    if isinstance(body, bytes) and body.isascii():
        return
    try:
        str(body, "utf-8")
    except UnicodeDecodeError as error:
        raise RejectedError(RejectionReason.NOT_UTF8, f"invalid UTF-8 at byte {error.start}") from None


def _decode_fields(body: Document) -> dict[str, Raw]:
    try:
        return decode_object(body)
    except msgspec.ValidationError:
        raise RejectedError(RejectionReason.NOT_AN_OBJECT, "the event is JSON, but not an object") from None
