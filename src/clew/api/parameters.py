"""What a request may ask with: declared once, read by the server and told in the OpenAPI document."""

from __future__ import annotations

import base64
import binascii
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Final, Literal

import msgspec

from clew.errors import MalformedError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# In a query a plus is a space, and few write %2B.
_OFFSET_BEHIND_SPACE = re.compile(r" (\d\d:?\d\d)$")
_LONGEST = 4096


@dataclass(frozen=True)
class Parameter(ABC):
    """A value of a request, by name."""

    name: str
    description: str
    is_required: bool = False
    place: Literal["query", "path"] = "query"

    @abstractmethod
    def read(self, text: str) -> Any:
        """The value of a text, or an error that says what is possible."""

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """The same as JSON Schema."""

    @property
    def default(self) -> Any:
        """The value where none is given."""
        return None

    def _impossible(self, text: str, possible: str) -> MalformedError:
        return MalformedError(f"{self.name} cannot be {text[:100]!r}.", hint=f"Give {possible}.")


@dataclass(frozen=True)
class Text(Parameter):
    """Any text that is not empty."""

    example: str | None = None

    def read(self, text: str) -> str:
        """The text itself."""
        if not text or len(text) > _LONGEST or "\x00" in text:
            raise self._impossible(text, f"a text of 1 to {_LONGEST} characters")
        return text

    def schema(self) -> dict[str, Any]:
        """A string."""
        shape: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": _LONGEST}
        return shape if self.example is None else {**shape, "examples": [self.example]}


@dataclass(frozen=True)
class Integer(Parameter):
    """A whole number within bounds."""

    least: int = 0
    most: int = 0
    usual: int = 0

    def read(self, text: str) -> int:
        """The number."""
        # Not `int` alone: it takes 1_000 and digits of other scripts.
        if not re.fullmatch(r"-?[0-9]{1,18}", text) or not self.least <= int(text) <= self.most:
            raise self._impossible(text, f"a number from {self.least} to {self.most}")
        return int(text)

    def schema(self) -> dict[str, Any]:
        """An integer."""
        return {"type": "integer", "minimum": self.least, "maximum": self.most, "default": self.usual}

    @property
    def default(self) -> int:
        """What is usual."""
        return self.usual


@dataclass(frozen=True)
class Choice(Parameter):
    """One of a few words."""

    words: tuple[str, ...] = ()
    usual: str | None = None

    def read(self, text: str) -> str:
        """The word."""
        if text not in self.words:
            raise self._impossible(text, f"one of {', '.join(self.words)}")
        return text

    def schema(self) -> dict[str, Any]:
        """A string of an enumeration."""
        shape: dict[str, Any] = {"type": "string", "enum": list(self.words)}
        return shape if self.usual is None else {**shape, "default": self.usual}

    @property
    def default(self) -> str | None:
        """What is usual."""
        return self.usual


@dataclass(frozen=True)
class Flag(Parameter):
    """True or false; false unless given."""

    def read(self, text: str) -> bool:
        """Whether it is true."""
        if text not in {"true", "false"}:
            raise self._impossible(text, "true or false")
        return text == "true"

    def schema(self) -> dict[str, Any]:
        """A boolean."""
        return {"type": "boolean", "default": False}

    @property
    def default(self) -> bool:
        """Not so."""
        return False


@dataclass(frozen=True)
class Time(Parameter):
    """A time that is past, in ISO 8601; without an offset it is UTC."""

    def read(self, text: str) -> int:
        """The time in microseconds since 1970."""
        try:
            found = datetime.fromisoformat(_OFFSET_BEHIND_SPACE.sub(r"+\1", text))
            moment = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
            since = moment - _EPOCH
        except (ValueError, OverflowError):
            raise self._impossible(text, "a time such as 2026-01-31T12:00:00Z") from None
        if moment > datetime.now(UTC):
            raise self._impossible(text, "a time that is past: nothing is known of the future")
        return since // timedelta(microseconds=1)

    def schema(self) -> dict[str, Any]:
        """A string in the form of a date and time."""
        return {"type": "string", "format": "date-time"}


@dataclass(frozen=True)
class Cursor(Parameter):
    """Where the page before ended: `next` of its answer."""

    def read(self, text: str) -> list[Any]:
        """What the page before noted."""
        try:
            found = msgspec.json.decode(base64.urlsafe_b64decode(text.encode("ascii")))
        except (ValueError, binascii.Error, msgspec.DecodeError):
            found = None
        if not isinstance(found, list):
            raise self._impossible(text, "what an earlier answer has as next")
        return found

    def schema(self) -> dict[str, Any]:
        """A string."""
        return {"type": "string", "minLength": 1, "maxLength": _LONGEST}

    def shape(self, found: list[Any] | None, *types: type | tuple[type, ...]) -> list[Any] | None:
        """What was noted, if it is what this list notes."""
        if found is None:
            return None
        if len(found) != len(types) or not all(map(isinstance, found, types)):
            raise self._impossible("…", "the cursor of the same list")
        return found


def cursor_of(*noted: object) -> str:
    """A cursor that notes where a page ended."""
    return base64.urlsafe_b64encode(msgspec.json.encode(noted)).decode()


def read_parameters(
    declared: tuple[Parameter, ...], given: Mapping[str, str], path: Mapping[str, str]
) -> dict[str, Any]:
    """The values of a request. A name that is not declared is an error: a misspelt one would pass unnoticed."""
    known = {parameter.name for parameter in declared if parameter.place == "query"}
    for name in given:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"Did you mean {close[0]}?" if close else f"There are {', '.join(sorted(known)) or 'none'}."
            raise MalformedError(f"There is no parameter {name[:100]!r}.", hint=hint)
    values: dict[str, Any] = {}
    for parameter in declared:
        text = (path if parameter.place == "path" else given).get(parameter.name)
        if text is not None:
            values[parameter.name] = parameter.read(text)
        elif parameter.is_required:
            raise MalformedError(f"{parameter.name} is missing.", hint=parameter.description)
        else:
            values[parameter.name] = parameter.default
    return values
