"""Tests of JSON Schema validation of events."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from clew.errors import MissingExtraError
from clew.events import validation
from clew.events.streams import Stream
from clew.events.validation import SCHEMA_FILES, detect_stream, load_schema, schema_violations

TIME = "2026-11-15T14:02:11.932379+00:00"
RUNTIME: dict[str, Any] = {
    "event_type": "cell_execution_start",
    "execution_id": "3731cb9b",
    "cell_id": "MJUe",
    "cell_source": "x = 1",
    "cell_source_lines": 1,
    "start_memory_mb": 101.09,
    "timestamp": TIME,
    "session_id": "6ac33987",
    "emitted_at": TIME,
}
FRAME = {"variable_name": "df", "object_id": "1", "shape": [4, 3], "columns": ["a"], "memory_usage_mb": 0.1}
DATAFRAME: dict[str, Any] = {
    "event_type": "dataframe_lineage",
    "execution_id": "cac41f13",
    "cell_id": "vblA",
    "session_id": "12c3604f",
    "timestamp": TIME,
    "emitted_at": TIME,
    "operation_type": "selection",
    "operation_method": "__getitem__",
    "operation_code": "df[df['a'] > 2]",
    "input_dataframes": [FRAME],
    "output_dataframes": [FRAME],
    "column_lineage": {"out.a": ["df.a"]},
    "performance": {"overhead_ms": 0.1},
}
OPENLINEAGE: dict[str, Any] = {
    "eventType": "START",
    "eventTime": TIME,
    "run": {"runId": "0190c5b4-8f3e-4f4c-9a2b-0a1b2c3d4e5f", "facets": {}},
    "job": {"namespace": "marimo", "name": "book/cell/pandas_merge"},
    "inputs": [],
    "outputs": [],
    "producer": "marimo-lineage-tracker",
    "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent",
    "session_id": "12c3604f",
    "emitted_at": TIME,
}
VALID_EVENTS: dict[Stream, dict[str, Any]] = {
    Stream.RUNTIME: RUNTIME,
    Stream.DATAFRAME: DATAFRAME,
    Stream.OPENLINEAGE: OPENLINEAGE,
}


@pytest.mark.parametrize("stream", VALID_EVENTS)
def test_valid_events_have_no_violations(stream: Stream) -> None:
    assert schema_violations(VALID_EVENTS[stream], stream) == []


@pytest.mark.parametrize("stream", VALID_EVENTS)
def test_unknown_fields_are_allowed(stream: Stream) -> None:
    assert schema_violations({**VALID_EVENTS[stream], "unknown_field": {"x": 1}}, stream) == []


@pytest.mark.parametrize("stream", VALID_EVENTS)
def test_detect_stream(stream: Stream) -> None:
    assert detect_stream(VALID_EVENTS[stream]) == stream
    assert detect_stream({"event_type": "something"}) is None
    assert detect_stream([1]) is None


@pytest.mark.parametrize(
    ("stream", "field"),
    [(stream, field) for stream in VALID_EVENTS for field in load_schema(SCHEMA_FILES[stream])["required"]],
)
def test_missing_required_field_is_a_violation(stream: Stream, field: str) -> None:
    event = {key: value for key, value in VALID_EVENTS[stream].items() if key != field}
    assert any(field in violation.message for violation in schema_violations(event, stream))


@pytest.mark.parametrize(
    ("stream", "change", "path"),
    [
        (Stream.RUNTIME, {"execution_id": "xyz"}, "/execution_id"),
        (Stream.RUNTIME, {"timestamp": "yesterday"}, "/timestamp"),
        (Stream.RUNTIME, {"event_type": "cell_execution_error"}, "/"),
        (Stream.RUNTIME, {"cell_index": 0}, "/cell_index"),
        (Stream.DATAFRAME, {"column_lineage": {"out.a": "df.a"}}, "/column_lineage/out.a"),
        (Stream.DATAFRAME, {"input_dataframes": [{"variable_name": "df"}]}, "/input_dataframes/0"),
        (Stream.OPENLINEAGE, {"eventType": "STARTED"}, "/eventType"),
        (Stream.OPENLINEAGE, {"run": {"runId": "3731cb9b"}}, "/run/runId"),
        (Stream.OPENLINEAGE, {"producer": "someone"}, "/producer"),
        (
            Stream.OPENLINEAGE,
            {"outputs": [{"namespace": "file", "name": "x", "facets": {"schema": {"fields": 3}}}]},
            "/outputs/0/facets/schema/fields",
        ),
    ],
)
def test_violations_have_a_path(stream: Stream, change: dict[str, Any], path: str) -> None:
    assert path in {violation.path for violation in schema_violations({**VALID_EVENTS[stream], **change}, stream)}


def test_missing_extra_error(monkeypatch: pytest.MonkeyPatch) -> None:
    validation._validator.cache_clear()
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(MissingExtraError, match="jsonschema_rs"):
        schema_violations(RUNTIME, Stream.RUNTIME)
    validation._validator.cache_clear()
