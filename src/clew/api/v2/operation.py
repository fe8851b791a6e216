"""Declaration of API operations and their parameters."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Annotated, Any, TypeAlias, TypeVar, get_type_hints

import msgspec
from msgspec import Meta, Struct

from clew.errors import MalformedError
from clew.events.openlineage import parse_time, to_epoch_micros
from clew.index.queries.reader import IndexReader
from clew.query.context import QueryResources
from clew.query.service import LineageService

# A plus sign in a query decodes to a space.
_SPACE_BEFORE_OFFSET = re.compile(r" (\d\d:?\d\d)$")
_INVALID_FIELD = re.compile(r"at `\$\.(\w+)")
T = TypeVar("T")
P = TypeVar("P", bound=Struct)


class RequestParameters(Struct, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of declared parameters: each field has a JSON Schema type and a description."""


TextParam: TypeAlias = Annotated[str, Meta(min_length=1, max_length=4096, pattern=r"^[^\x00]*$")]
CursorParam: TypeAlias = Annotated[
    TextParam | None, Meta(description="Cursor of the page: next of the previous response.")
]
TimestampParam: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


def parameter_schemas(kind: type[Struct]) -> dict[str, dict[str, Any]]:
    """Return the JSON Schema of each parameter."""
    _, components = msgspec.json.schema_components([kind])
    return {name: _parameter_schema(schema) for name, schema in components[kind.__name__]["properties"].items()}


def _parameter_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a field without null: an optional parameter can be absent, but not null."""
    if "anyOf" in schema:
        schema = {key: value for key, value in schema.items() if key not in {"anyOf", "default"}} | schema["anyOf"][0]
    return {"type": "string", **schema} if "enum" in schema else schema


def parse_parameters(kind: type[P], values: Mapping[str, Any]) -> P:
    """Parse the query and path parameters of a request; an undeclared name is an error."""
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _malformed(kind, values, str(error)) from None


def _malformed(kind: type[Struct], values: Mapping[str, Any], reason: str) -> MalformedError:
    schemas = parameter_schemas(kind)
    for name in values:
        if name not in schemas:
            close = get_close_matches(name, schemas, n=1)
            valid = ", ".join(sorted(schemas)) or "none"
            hint = f"Did you mean {close[0]}?" if close else f"Valid parameters: {valid}."
            return MalformedError(f"Unknown parameter {name[:100]!r}.", hint=hint)
    for field in msgspec.structs.fields(kind):
        if field.required and field.encode_name not in values:
            description = schemas[field.encode_name].get("description")
            return MalformedError(f"Missing parameter {field.encode_name!r}.", hint=description)
    name = _INVALID_FIELD.findall(reason)[0]
    return _invalid(name, values[name], _describe_schema(schemas[name]))


def _describe_schema(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return f"one of {', '.join(schema['enum'])}"
    match schema.get("type"):
        case "integer":
            return f"a number from {schema['minimum']} to {schema['maximum']}"
        case "boolean":
            return "true or false"
        case _:
            return f"a string of {schema['minLength']} to {schema['maxLength']} characters without NUL"


def _invalid(name: str, value: str, expected: str) -> MalformedError:
    return MalformedError(f"Invalid value {value[:100]!r} for {name}.", hint=f"Use {expected}.")


def parse_timestamp(name: str, text: str) -> datetime:
    """Parse an ISO 8601 timestamp; UTC without an offset."""
    try:
        return parse_time(_SPACE_BEFORE_OFFSET.sub(r"+\1", text))
    except ValueError:
        raise _invalid(name, text, "a time such as 2026-01-31T12:00:00Z") from None


def parse_past_micros(name: str, text: str | None) -> int | None:
    """Parse a past timestamp to microseconds since 1970."""
    if text is None:
        return None
    timestamp = parse_timestamp(name, text)
    if timestamp > datetime.now(UTC):
        raise _invalid(name, text, "a time in the past")
    return to_epoch_micros(timestamp)


def decode_cursor(text: str | None, kind: type[T]) -> T | None:
    """Decode the values of a cursor of `encode_cursor`."""
    if text is None:
        return None
    try:
        values = msgspec.json.decode(base64.urlsafe_b64decode(text), type=kind)
    except (ValueError, msgspec.DecodeError):
        values = None
    if not isinstance(values, tuple) or not all(map(_is_column_value, values)):
        raise _invalid("cursor", text, "the value of next from a previous response of the same list")
    return values


def _is_column_value(value: object) -> bool:
    """Return whether a value can be compared with a column of either index database."""
    return "\x00" not in value if isinstance(value, str) else not isinstance(value, int) or abs(value) < 2**63


def encode_cursor(*values: object) -> str:
    """Encode the values of a cursor."""
    return base64.urlsafe_b64encode(msgspec.json.encode(values)).decode()


@dataclass(frozen=True)
class OperationContext:
    """Data sources of a handler."""

    resources: QueryResources
    index: IndexReader

    @property
    def service(self) -> LineageService:
        """Queries on the snapshot of the request."""
        return LineageService(self.resources, self.index)


@dataclass(frozen=True)
class ApiOperation:
    """Operation with its parameters, response type and handler; `is_inline` handlers run on the event loop."""

    name: str
    path: str
    summary: str
    parameters: type[RequestParameters]
    response_type: type[Struct]
    handler: Callable[[OperationContext, Any], Struct]
    is_inline: bool = False


def api_operation(
    name: str, path: str, summary: str, *, is_inline: bool = False
) -> Callable[[Callable[[OperationContext, Any], Struct]], ApiOperation]:
    """Declare a handler as an operation; parameters and response have the types of its annotations."""

    def declare(handler: Callable[[OperationContext, Any], Struct]) -> ApiOperation:
        _, parameters, response_type = get_type_hints(handler).values()
        return ApiOperation(name, path, summary, parameters, response_type, handler, is_inline)

    return declare
