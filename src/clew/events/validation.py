"""Strict checks of events against the schemas in the wheel. Reading does not need them: a reader is tolerant."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from clew.errors import MissingExtraError

Stream = Literal["runtime", "openlineage", "dataframe"]

SCHEMA_FILES: dict[Stream, str] = {
    "runtime": "runtime_events_schema.json",
    "openlineage": "openlineage_events_schema.json",
    "dataframe": "dataframe_lineage_schema.json",
}
STREAM_FILES: dict[str, Stream] = {
    "marimo_runtime.jsonl": "runtime",
    "marimo_lineage_events.jsonl": "openlineage",
    "marimo_dataframe_lineage.jsonl": "dataframe",
}


class Fault(NamedTuple):
    """What a schema finds wrong with an event, and where."""

    path: str
    message: str


@cache
def schema(stream: Stream) -> dict[str, Any]:
    """The JSON Schema of a stream."""
    text = files("clew.events").joinpath("schemas", SCHEMA_FILES[stream]).read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def faults(event: Any, stream: Stream) -> list[Fault]:
    """Everything wrong with a decoded event; empty if it is valid."""
    found = _validator(stream).iter_errors(event)
    return [Fault("/" + "/".join(map(str, fault.instance_path)), fault.message) for fault in found]


def stream_of(event: Any) -> Stream | None:
    """Which stream an event belongs to, by what it says of itself."""
    if not isinstance(event, dict):
        return None
    if "eventTime" in event:
        return "openlineage"
    kind = event.get("event_type")
    if kind == "dataframe_lineage":
        return "dataframe"
    return "runtime" if isinstance(kind, str) and kind.startswith("cell_execution") else None


@cache
def _validator(stream: Stream) -> Any:
    try:
        import jsonschema_rs
    except ModuleNotFoundError as fault:
        raise MissingExtraError.named("validate", "jsonschema_rs") from fault
    return jsonschema_rs.Draft202012Validator(schema(stream), validate_formats=True)
