"""Requests, responses and errors of the Marquez API."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from typing import TypeVar
from urllib.parse import parse_qs, unquote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Struct
from starlette.types import Receive, Scope

from clew.events.openlineage import parse_time

T = TypeVar("T")

MAX_LIMIT = 10_000
MAX_WAIT_SECONDS = 60.0
_MAX_INT = 2**31 - 1
_MAX_BODY_BYTES = 1 << 20


class MarquezResponse(Struct, frozen=True):
    """HTTP response."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()


class MarquezError(Exception):
    """HTTP error; `is_validation` uses the body of Marquez's parameter validation."""

    def __init__(self, status: int, message: str, *, is_validation: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.is_validation = is_validation

    def response(self) -> MarquezResponse:
        """Create the error response."""
        if self.is_validation:
            return MarquezResponse(msgspec.json.encode({"errors": [self.message]}), self.status)
        headers = ((b"retry-after", b"1"),) if self.status == 503 else ()
        return MarquezResponse(
            msgspec.json.encode({"code": self.status, "message": self.message}), self.status, headers
        )


def _invalid_param(message: str) -> MarquezError:
    return MarquezError(400, f"query param {message}", is_validation=True)


def not_found_error(kind: str, name: str) -> MarquezError:
    """Create a 404 error with Marquez's message."""
    return MarquezError(404, f"{kind} '{name}' not found.")


class MarquezRequest(Struct):
    """Request: path arguments, query and body."""

    path_args: tuple[str, ...]
    query: bytes
    body: bytes = b""

    @property
    def entity_name(self) -> tuple[str, str]:
        """Namespace and name of the job or dataset of the path."""
        return self.path_args[0], self.path_args[1]

    @property
    def params(self) -> dict[str, list[str]]:
        """Query parameters."""
        return parse_qs(self.query.decode("latin-1"), keep_blank_values=True) if self.query else {}

    def param(self, name: str) -> str | None:
        """Return a parameter as text."""
        return self.params.get(name, [None])[-1]

    def required_param(self, name: str) -> str:
        """Return a required parameter."""
        value = self.param(name)
        if not value:
            raise _invalid_param(f"{name} must not be null")
        return value

    def depth_param(self, default: int) -> int:
        """Return the depth of a graph; a negative one is that of the node alone."""
        text = self.param("depth") or ""
        return 0 if text.startswith("-") and text[1:].isdecimal() else self.int_param("depth", default)

    def int_param(self, name: str, default: int, maximum: int = _MAX_INT) -> int:
        """Return a non-negative integer."""
        text = self.param(name)
        if text is None or text == "":
            return default
        if not text.removeprefix("-").isdecimal() or not text.isascii():
            raise _invalid_param(f"{name} must be a number")
        if text.startswith("-") and int(text[:12]) < 0:
            raise _invalid_param(f"{name} must be greater than or equal to 0")
        return maximum if len(text) > len(str(_MAX_INT)) else min(int(text), maximum)

    def page(self) -> tuple[int, int]:
        """Return limit and offset."""
        return self.int_param("limit", 100, MAX_LIMIT), self.int_param("offset", 0)

    def slice(self, items: list[T]) -> list[T]:
        """Return the requested page of a list."""
        limit, offset = self.page()
        return items[offset : offset + limit]

    def bool_param(self, name: str) -> bool:
        """Return a boolean."""
        return (self.param(name) or "").lower() == "true"

    def enum_param(self, name: str, choices: Iterable[str], default: str | None = None) -> str:
        """Return one of the choices, case-insensitive."""
        text = self.param(name) or default
        if text is None:
            raise _invalid_param(f"{name} must not be null")
        if text.upper() not in choices:
            raise _invalid_param(f"{name} must be one of [{', '.join(choices)}]")
        return text.upper()

    def timestamp_param(self, name: str, default: datetime) -> datetime:
        """Return a timestamp."""
        text = self.param(name)
        try:
            # A plus sign in a query decodes to a space.
            return default if not text else parse_time(text.replace(" ", "+"))
        except ValueError:
            raise _invalid_param(f"{name} must be an instant in ISO-8601") from None

    def date_param(self, name: str) -> datetime | None:
        """Return the start of a day in UTC."""
        text = self.param(name)
        try:
            return None if not text else datetime.combine(date.fromisoformat(text), time(), UTC)
        except ValueError:
            raise _invalid_param(f"{name} must be a date: YYYY-MM-DD") from None

    def time_zone_param(self, name: str) -> ZoneInfo:
        """Return a time zone."""
        text = self.required_param(name)
        try:
            return ZoneInfo(text)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise _invalid_param(f"{name} must name a time zone") from None


def scope_path_segments(scope: Scope) -> list[str]:
    """Return the path segments, decoded one by one: a name can contain slashes."""
    raw = scope.get("raw_path")
    if raw is None:
        return str(scope["path"]).strip("/").split("/")
    return path_segments(raw.partition(b"?")[0])


def path_segments(raw: bytes) -> list[str]:
    """Split and decode a raw path."""
    path = raw.decode("ascii", "replace")
    return [unquote(segment) if "%" in segment else segment for segment in path.strip("/").split("/")]


def preferred_wait(headers: Iterable[tuple[bytes, bytes]], default: float) -> float:
    """Return how many seconds a request may wait, from its header `Prefer: wait=…` (RFC 7240)."""
    for name, value in headers:
        if name == b"prefer":
            for preference in value.decode("latin-1").split(","):
                key, _, seconds = preference.strip().partition("=")
                if key.strip().lower() == "wait" and seconds.strip().isdecimal():
                    return min(float(seconds[:9]), MAX_WAIT_SECONDS)
    return default


async def receive_body(receive: Receive) -> bytes:
    """Read a request body of at most 1 MB."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > _MAX_BODY_BYTES:
            raise MarquezError(413, "The body is larger than 1 MB.")
        if not message.get("more_body"):
            return bytes(body)
