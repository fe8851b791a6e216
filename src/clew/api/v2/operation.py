"""Declaration of API operations and their parameters."""

from __future__ import annotations

import base64
import binascii
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from clew.errors import MalformedError
from clew.index.queries.reader import IndexReader
from clew.query.context import QueryResources

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# A plus sign in a query decodes to a space.
_SPACE_BEFORE_OFFSET = re.compile(r" (\d\d:?\d\d)$")
_MAX_LENGTH = 4096


@dataclass(frozen=True)
class Parameter(ABC):
    """Declared request parameter."""

    name: str
    description: str
    is_required: bool = False
    location: Literal["query", "path"] = "query"

    @abstractmethod
    def parse(self, text: str) -> Any:
        """Parse a value; MalformedError if it is invalid."""

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema."""

    @property
    def default(self) -> Any:
        """Value if the parameter is absent."""
        return None

    def _invalid(self, text: str, expected: str) -> MalformedError:
        return MalformedError(f"Invalid value {text[:100]!r} for {self.name}.", hint=f"Use {expected}.")


@dataclass(frozen=True)
class StringParam(Parameter):
    """Non-empty string."""

    example: str | None = None

    def parse(self, text: str) -> str:
        """Return the string."""
        if not text or len(text) > _MAX_LENGTH or "\x00" in text:
            raise self._invalid(text, f"a string of 1 to {_MAX_LENGTH} characters")
        return text

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of a string."""
        schema: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": _MAX_LENGTH}
        return schema if self.example is None else {**schema, "examples": [self.example]}


@dataclass(frozen=True)
class IntegerParam(Parameter):
    """Integer with bounds."""

    minimum: int = 0
    maximum: int = 0
    default_value: int = 0

    def parse(self, text: str) -> int:
        """Parse the integer."""
        # `int` alone accepts 1_000 and non-ASCII digits.
        if not re.fullmatch(r"-?[0-9]{1,18}", text) or not self.minimum <= int(text) <= self.maximum:
            raise self._invalid(text, f"a number from {self.minimum} to {self.maximum}")
        return int(text)

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of an integer."""
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum, "default": self.default_value}

    @property
    def default(self) -> int:
        """Default value."""
        return self.default_value


@dataclass(frozen=True)
class EnumParam(Parameter):
    """String from a fixed set."""

    choices: tuple[str, ...] = ()
    default_value: str | None = None

    def parse(self, text: str) -> str:
        """Return the string if it is one of the choices."""
        if text not in self.choices:
            raise self._invalid(text, f"one of {', '.join(self.choices)}")
        return text

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of an enum."""
        schema: dict[str, Any] = {"type": "string", "enum": list(self.choices)}
        return schema if self.default_value is None else {**schema, "default": self.default_value}

    @property
    def default(self) -> str | None:
        """Default value."""
        return self.default_value


@dataclass(frozen=True)
class BoolParam(Parameter):
    """Boolean; false by default."""

    def parse(self, text: str) -> bool:
        """Parse the boolean."""
        if text not in {"true", "false"}:
            raise self._invalid(text, "true or false")
        return text == "true"

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of a boolean."""
        return {"type": "boolean", "default": False}

    @property
    def default(self) -> bool:
        """Default value."""
        return False


@dataclass(frozen=True)
class TimestampParam(Parameter):
    """Past ISO 8601 timestamp; UTC without an offset."""

    def parse(self, text: str) -> int:
        """Parse to microseconds since 1970."""
        try:
            parsed = datetime.fromisoformat(_SPACE_BEFORE_OFFSET.sub(r"+\1", text))
            timestamp = parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)
            since = timestamp - _EPOCH
        except (ValueError, OverflowError):
            raise self._invalid(text, "a time such as 2026-01-31T12:00:00Z") from None
        if timestamp > datetime.now(UTC):
            raise self._invalid(text, "a time in the past")
        return since // timedelta(microseconds=1)

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of a timestamp."""
        return {"type": "string", "format": "date-time"}


@dataclass(frozen=True)
class CursorParam(Parameter):
    """Cursor of a page: `next` of the previous response."""

    def parse(self, text: str) -> list[Any]:
        """Decode the values of the cursor."""
        try:
            values = msgspec.json.decode(base64.urlsafe_b64decode(text.encode("ascii")))
        except (ValueError, binascii.Error, msgspec.DecodeError):
            values = None
        if not isinstance(values, list):
            raise self._invalid(text, "the value of next from a previous response")
        return values

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of a string."""
        return {"type": "string", "minLength": 1, "maxLength": _MAX_LENGTH}

    def check_values(self, values: list[Any] | None, *types: type | tuple[type, ...]) -> list[Any] | None:
        """Return the values if they have the types of this list's cursor."""
        if values is None:
            return None
        if len(values) != len(types) or not all(map(isinstance, values, types)):
            raise self._invalid("…", "a cursor of the same list")
        return values


def encode_cursor(*values: object) -> str:
    """Encode the values of a cursor."""
    return base64.urlsafe_b64encode(msgspec.json.encode(values)).decode()


def parse_parameters(
    declared: tuple[Parameter, ...], query: Mapping[str, str], path: Mapping[str, str]
) -> dict[str, Any]:
    """Parse the parameters of a request; an undeclared name is an error."""
    names = {parameter.name for parameter in declared if parameter.location == "query"}
    for name in query:
        if name not in names:
            close = get_close_matches(name, names, n=1)
            hint = f"Did you mean {close[0]}?" if close else f"Valid parameters: {', '.join(sorted(names)) or 'none'}."
            raise MalformedError(f"Unknown parameter {name[:100]!r}.", hint=hint)
    values: dict[str, Any] = {}
    for parameter in declared:
        text = (path if parameter.location == "path" else query).get(parameter.name)
        if text is not None:
            values[parameter.name] = parameter.parse(text)
        elif parameter.is_required:
            raise MalformedError(f"Missing parameter {parameter.name!r}.", hint=parameter.description)
        else:
            values[parameter.name] = parameter.default
    return values


class NeedsThreadError(Exception):
    """Raised by an inline operation that must run in a thread this time."""


@dataclass(frozen=True)
class OperationContext:
    """Parsed request. Slow work raises `NeedsThreadError` if `on_event_loop`."""

    resources: QueryResources
    index: IndexReader
    values: dict[str, Any]
    on_event_loop: bool = False

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


@dataclass(frozen=True)
class OperationSpec:
    """Declaration of an operation: path, parameters and response type."""

    name: str
    path: str
    summary: str
    parameters: tuple[Parameter, ...]
    response_type: type[Struct]


@dataclass(frozen=True)
class ApiOperation(OperationSpec):
    """Operation with its handler; `is_inline` handlers run on the event loop."""

    handler: Callable[[OperationContext], Struct]
    is_inline: bool = False
