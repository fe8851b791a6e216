"""Tests that events exactly as documented are decoded and valid."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.documented_events import (
    DATAFRAME_EVENT,
    DOCUMENTED_EVENTS,
    EXECUTION_FACET,
    METRICS_FACET,
    OPENLINEAGE_EVENT,
    PERFORMANCE_FACET,
    RUNTIME_EVENT,
)

from clew.events.streams import Stream, decode_event
from clew.events.validation import EventValidator, OpenLineageSpec, detect_stream, schema_violations

RUN_FACETS = {"marimo_execution": EXECUTION_FACET, "marimo_performance": PERFORMANCE_FACET}
INPUT = OPENLINEAGE_EVENT["inputs"][0]
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{stream: (stream, event) for stream, event in DOCUMENTED_EVENTS.items()},
    "runtime, optional fields": (
        "runtime",
        {**RUNTIME_EVENT, "end_memory_mb": 102.0, "duration_ms": 4.13, "error_info": None},
    ),
    "START": ("openlineage", {**OPENLINEAGE_EVENT, "eventType": "START", "outputs": []}),
    "prefixed facets": (
        "openlineage",
        {**OPENLINEAGE_EVENT, "run": {**OPENLINEAGE_EVENT["run"], "facets": RUN_FACETS}},
    ),
    "metrics as input facet": (
        "openlineage",
        {**OPENLINEAGE_EVENT, "inputs": [{**INPUT, "inputFacets": {"dataQualityMetrics": METRICS_FACET}}]},
    ),
    "aggregation": (
        "dataframe",
        {**DATAFRAME_EVENT, "operation_type": "aggregation", "operation_method": "groupby", "performance": {}},
    ),
    "join": ("dataframe", {**DATAFRAME_EVENT, "operation_type": "join", "operation_method": "merge"}),
}


@pytest.mark.parametrize(("stream", "event"), VARIANTS.values(), ids=VARIANTS)
def test_documented_events_are_decoded_and_valid(stream: str, event: dict[str, Any]) -> None:
    body = json.dumps(event).encode()
    assert detect_stream(event) == stream
    decode_event(stream, body, "2026-01-01T10:00:00+00:00")
    assert schema_violations(event, Stream(stream)) == []
    validator = EventValidator(OpenLineageSpec.core())
    assert [issue for issue in validator.validate("f", 1, body) if issue.level == "error"] == []


@pytest.mark.parametrize(
    ("stream", "name"),
    [(stream, name) for stream, event in DOCUMENTED_EVENTS.items() for name in event],
)
def test_documented_fields_are_required(stream: str, name: str) -> None:
    event = {key: value for key, value in DOCUMENTED_EVENTS[stream].items() if key != name}
    assert schema_violations(event, Stream(stream))


def test_other_producers_must_follow_the_spec() -> None:
    event = {**OPENLINEAGE_EVENT, "producer": "https://example.com/marimo-lineage-tracker/1"}
    validator = EventValidator(OpenLineageSpec.core())
    paths = {issue.path for issue in validator.validate("f", 1, json.dumps(event).encode()) if issue.rule == "spec"}
    assert {"/run/facets/performance", "/outputs/0/facets/columnLineage"} <= paths


def test_operation_code_is_not_empty() -> None:
    paths = [path for path, _ in schema_violations({**DATAFRAME_EVENT, "operation_code": ""}, Stream.DATAFRAME)]
    assert paths == ["/operation_code"]
