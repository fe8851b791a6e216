"""Strict validation of events against the bundled JSON Schemas. Ingestion is tolerant and does not use it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from clew.errors import MissingExtraError

StreamName = Literal["runtime", "openlineage", "dataframe"]

SCHEMA_FILES: dict[StreamName, str] = {
    "runtime": "runtime_events_schema.json",
    "openlineage": "openlineage_events_schema.json",
    "dataframe": "dataframe_lineage_schema.json",
}
SCHEMA_STREAM_FILES: dict[str, StreamName] = {
    "marimo_runtime.jsonl": "runtime",
    "marimo_lineage_events.jsonl": "openlineage",
    "marimo_dataframe_lineage.jsonl": "dataframe",
}


class SchemaViolation(NamedTuple):
    """A violation of a schema, with the JSON path of the value."""

    path: str
    message: str


@cache
def load_schema(stream: StreamName) -> dict[str, Any]:
    """Load the JSON Schema of a stream."""
    text = files("clew.events").joinpath("schemas", SCHEMA_FILES[stream]).read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def schema_violations(event: Any, stream: StreamName) -> list[SchemaViolation]:
    """Return the schema violations of a decoded event."""
    return to_violations(_validator(stream).iter_errors(event))


def to_violations(errors: Iterable[Any]) -> list[SchemaViolation]:
    """Convert errors of jsonschema_rs to distinct violations."""
    return list(dict.fromkeys(violation for error in errors for violation in _flatten_error(error)))


def build_validator(rules: dict[str, Any], retrieve: Callable[[str], dict[str, Any]] | None = None) -> Any:
    """Build a validator of a JSON Schema; `retrieve` returns the schemas that it refers to."""
    try:
        import jsonschema_rs
    except ModuleNotFoundError as error:
        raise MissingExtraError.for_module("validate", "jsonschema_rs") from error
    return jsonschema_rs.Draft202012Validator(rules, validate_formats=True, retriever=retrieve)


def detect_stream(event: Any) -> StreamName | None:
    """Detect the stream of an event by its fields."""
    if not isinstance(event, dict):
        return None
    if "eventTime" in event:
        return "openlineage"
    kind = event.get("event_type")
    if kind == "dataframe_lineage":
        return "dataframe"
    return "runtime" if isinstance(kind, str) and kind.startswith("cell_execution") else None


@cache
def _validator(stream: StreamName) -> Any:
    return build_validator(load_schema(stream))


def _flatten_error(error: Any) -> Iterator[SchemaViolation]:
    """Yield an error as a violation; if there was only one alternative, yield the errors of that."""
    context = getattr(error.kind, "context", None)
    if context is not None and len(context) == 1:
        for inner in context[0]:
            yield from _flatten_error(inner)
    else:
        yield SchemaViolation("/" + "/".join(map(str, error.instance_path)), error.message)
