"""Strict checks of events against the schemas in the wheel. Reading does not need them: a reader is tolerant."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
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
    return fault_list(_validator(stream).iter_errors(event))


def fault_list(errors: Iterable[Any]) -> list[Fault]:
    """What a validator found, each fault once."""
    return list(dict.fromkeys(fault for error in errors for fault in _told(error)))


def validator_of(rules: dict[str, Any], found: Callable[[str], dict[str, Any]] | None = None) -> Any:
    """A validator of a JSON Schema; `found` gives the schemas that it refers to."""
    try:
        import jsonschema_rs
    except ModuleNotFoundError as fault:
        raise MissingExtraError.named("validate", "jsonschema_rs") from fault
    return jsonschema_rs.Draft202012Validator(rules, validate_formats=True, retriever=found)


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
    return validator_of(schema(stream))


def _told(error: Any) -> Iterator[Fault]:
    """An error as a fault; where there was but one alternative, what was wrong with that."""
    context = getattr(error.kind, "context", None)
    if context is not None and len(context) == 1:
        for inner in context[0]:
            yield from _told(inner)
    else:
        yield Fault("/" + "/".join(map(str, error.instance_path)), error.message)
