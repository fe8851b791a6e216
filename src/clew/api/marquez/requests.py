"""A request as Marquez's paths and parameters have it, and the answers to it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from urllib.parse import parse_qs, unquote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Struct
from starlette.types import Receive, Scope

from clew.events.timestamps import parse_time

MOST_LISTED = 10_000
_LARGEST = 2**31 - 1
_LARGEST_BODY = 1 << 20


class Answer(Struct, frozen=True):
    """What to send back."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Refusal(Exception):  # noqa: N818  # an answer, not a fault
    """A request that cannot be answered as asked; `is_invalid`: in the form of Marquez's checks of parameters."""

    def __init__(self, status: int, message: str, *, is_invalid: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.is_invalid = is_invalid

    def answer(self) -> Answer:
        """The refusal as an answer."""
        if self.is_invalid:
            return Answer(msgspec.json.encode({"errors": [self.message]}), self.status)
        later = ((b"retry-after", b"1"),) if self.status == 503 else ()
        return Answer(msgspec.json.encode({"code": self.status, "message": self.message}), self.status, later)


def not_found(kind: str, name: str) -> Refusal:
    """Marquez's words for what is not there."""
    return Refusal(404, f"{kind} '{name}' not found.")


class Asked(Struct):
    """A request: the parts of its path that vary, its parameters, and its body if it has one."""

    parts: tuple[str, ...]
    query: bytes
    body: bytes = b""

    @property
    def params(self) -> dict[str, list[str]]:
        """The parameters."""
        return parse_qs(self.query.decode("latin-1"), keep_blank_values=True) if self.query else {}

    def text(self, name: str) -> str | None:
        """A parameter as it was given."""
        return self.params.get(name, [None])[-1]

    def required(self, name: str) -> str:
        """A parameter that must be there."""
        found = self.text(name)
        if not found:
            raise Refusal(400, f"query param {name} must not be null", is_invalid=True)
        return found

    def number(self, name: str, default: int, most: int = _LARGEST) -> int:
        """A whole number that is not negative."""
        text = self.text(name)
        if text is None or text == "":
            return default
        if not text.removeprefix("-").isdecimal() or not text.isascii():
            raise Refusal(400, f"query param {name} must be a number", is_invalid=True)
        if text.startswith("-") and int(text[:12]) < 0:
            raise Refusal(400, f"query param {name} must be greater than or equal to 0", is_invalid=True)
        return most if len(text) > len(str(_LARGEST)) else min(int(text), most)

    def page(self, limit: int = 100) -> tuple[int, int]:
        """How many to list, and from where on."""
        return self.number("limit", limit, MOST_LISTED), self.number("offset", 0)

    def flag(self, name: str) -> bool:
        """A parameter that is true or not."""
        return (self.text(name) or "").lower() == "true"

    def choice(self, name: str, known: Iterable[str], default: str | None = None) -> str:
        """One of a few words, in whichever letters."""
        text = self.text(name) or default
        if text is None:
            raise Refusal(400, f"query param {name} must not be null", is_invalid=True)
        if text.upper() not in known:
            raise Refusal(400, f"query param {name} must be one of [{', '.join(known)}]", is_invalid=True)
        return text.upper()

    def moment(self, name: str, default: datetime) -> datetime:
        """A point in time."""
        text = self.text(name)
        try:
            # A plus sign in a query is a space.
            return default if not text else parse_time(text.replace(" ", "+"))
        except ValueError:
            raise Refusal(400, f"query param {name} must be an instant in ISO-8601", is_invalid=True) from None

    def day(self, name: str) -> datetime | None:
        """The beginning of a day in UTC."""
        text = self.text(name)
        try:
            return None if not text else datetime.combine(date.fromisoformat(text), time(), UTC)
        except ValueError:
            raise Refusal(400, f"query param {name} must be a date: YYYY-MM-DD", is_invalid=True) from None

    def zone(self, name: str) -> ZoneInfo:
        """A time zone."""
        text = self.required(name)
        try:
            return ZoneInfo(text)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise Refusal(400, f"query param {name} must name a time zone", is_invalid=True) from None


def path_parts(scope: Scope) -> list[str]:
    """The parts of a path, each decoded on its own: a name may hold slashes."""
    raw = scope.get("raw_path")
    if raw is None:
        return str(scope["path"]).strip("/").split("/")
    return parts_of(raw.partition(b"?")[0])


def parts_of(raw: bytes) -> list[str]:
    """The same of a path as it came."""
    path = raw.decode("ascii", "replace")
    return [unquote(part) if "%" in part else part for part in path.strip("/").split("/")]


async def read_body(receive: Receive) -> bytes:
    """The body of a request; these are small."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > _LARGEST_BODY:
            raise Refusal(413, "The body is larger than 1 MB.")
        if not message.get("more_body"):
            return bytes(body)
