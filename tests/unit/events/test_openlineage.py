"""Tests of decoding OpenLineage events."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.events import streams
from clew.events.decoding import RejectedError, RejectionReason
from clew.events.openlineage import Event, decode_openlineage, parse_dataset_version

TIME = "2026-01-01T10:00:00Z"
SPEC = "https://openlineage.io/spec"


def event(**parts: Any) -> bytes:
    all_parts = {"eventTime": TIME, "run": {"runId": "r"}, "job": {"namespace": "n", "name": "j"}, **parts}
    return json.dumps(all_parts).encode()


def names(datasets: list[Any] | None) -> list[str]:
    return [dataset.name for dataset in datasets or ()]


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ({}, "RUN"),
        ({"dataset": {"namespace": "n", "name": "d"}}, "RUN"),
        ({"run": None}, "JOB"),
        ({"run": None, "dataset": {"namespace": "n", "name": "d"}}, "JOB"),
        ({"run": None, "job": None, "dataset": {"namespace": "n", "name": "d"}}, "DATASET"),
    ],
)
def test_kind_of_an_event(parts: dict[str, Any], kind: str) -> None:
    assert decode_openlineage(event(**parts)).kind == kind


@pytest.mark.parametrize(
    ("parts", "condition"),
    [
        ({"eventType": 7}, lambda e: e.event_type is None),
        ({"eventType": "WHATEVER"}, lambda e: e.event_type == "WHATEVER"),
        ({"producer": None, "schemaURL": []}, lambda e: (e.producer, e.schema_url) == (None, None)),
        ({"producer": "marimo-lineage-tracker"}, lambda e: e.producer == "marimo-lineage-tracker"),
        ({"schemaURL": f"{SPEC}/1-0-5/OpenLineage.json"}, lambda e: e.schema_url.endswith("1-0-5/OpenLineage.json")),
        ({"inputs": None, "outputs": {}}, lambda e: names(e.inputs) == names(e.outputs) == []),
        ({"inputs": [None, {"namespace": "n", "name": "d", "facets": 7}]}, lambda e: names(e.inputs) == ["d"]),
        ({"run": {"runId": "no-uuid", "facets": [1]}}, lambda e: e.run == type(e.run)("no-uuid")),
        ({"run": {"runId": "r", "facets": {"a": None, "b": "t"}}}, lambda e: list(e.run.facets) == ["a", "b"]),
        ({"session_id": 7, "execution_id": "e"}, lambda e: (e.session_id, e.execution_id) == (None, "e")),
        ({"unknown": {"a": [1]}}, lambda e: e.kind == "RUN"),
    ],
)
def test_malformed_part_is_ignored(parts: dict[str, Any], condition: Any) -> None:
    decoded = decode_openlineage(event(**parts))
    assert condition(decoded)
    assert decoded.run is not None
    assert decoded.run.run_id


def test_facets_of_a_malformed_event_are_preserved_byte_for_byte() -> None:
    body = b'{"eventTime": "%s", "producer": 7, "job": {"namespace": "n", "name": "j"}, '
    body += b'"run": {"runId": "r", "facets": {"odd": {"x" :1.50,  "y":"\\u00e9" }}}}'
    run = decode_openlineage(body % TIME.encode()).run
    assert run is not None
    assert bytes((run.facets or {})["odd"]) == b'{"x" :1.50,  "y":"\\u00e9" }'


def test_last_of_duplicate_keys_counts() -> None:
    body = b'{"job": {"namespace": "n", "name": "j"}, "eventTime": "x", "eventTime": "%s", '
    body += b'"run": {"runId": "a", "runId": "b", "facets": {"f": 1, "f": 2}}}'
    run = decode_openlineage(body % TIME.encode()).run
    assert run is not None
    assert (run.run_id, bytes((run.facets or {})["f"])) == ("b", b"2")


def test_decodes_an_event_of_ten_megabytes() -> None:
    facet = {"plan": "x" * 10_000_000}
    decoded = decode_openlineage(event(run={"runId": "r", "facets": {"spark.logicalPlan": facet}}))
    assert decoded.run is not None
    assert len(bytes((decoded.run.facets or {})["spark.logicalPlan"])) > 10_000_000


def deep(levels: int, **parts: Any) -> bytes:
    return event(**parts)[:-1] + b', "deep": ' + b"[" * levels + b"]" * levels + b"}"


def without(name: str) -> bytes:
    parts = json.loads(event())
    del parts[name]
    return json.dumps(parts).encode()


REJECTED = {
    "not UTF-8": (b"\xff\xfe{}", RejectionReason.NOT_UTF8),
    "invalid UTF-8 in a facet": (
        event(run={"runId": "r", "facets": {"f": "?"}}).replace(b"?", b"\xe9"),
        RejectionReason.NOT_UTF8,
    ),
    "invalid UTF-8 in a malformed event": (event(producer=7, x="?").replace(b"?", b"\xe9"), RejectionReason.NOT_UTF8),
    "empty": (b"", RejectionReason.NOT_JSON),
    "not JSON": (b"not json", RejectionReason.NOT_JSON),
    "truncated": (event()[:-20], RejectionReason.NOT_JSON),
    "malformed and truncated": (b'{"eventTime": 7, "run": {"runId": "r"', RejectionReason.NOT_JSON),
    "NaN": (event(x="?").replace(b'"?"', b"NaN"), RejectionReason.NOT_JSON),
    "NaN in a facet": (
        event(run={"runId": "r", "facets": {"f": "?"}}).replace(b'"?"', b"NaN"),
        RejectionReason.NOT_JSON,
    ),
    "trailing text": (event() + b" trailing", RejectionReason.NOT_JSON),
    "trailing text after a malformed event": (event(producer=7) + b"}", RejectionReason.NOT_JSON),
    "half a surrogate pair": (event(x="?").replace(b"?", b"\\ud800"), RejectionReason.NOT_JSON),
    "byte order mark": ("\ufeff".encode() + event(), RejectionReason.NOT_JSON),
    "list": (b"[1, 2]", RejectionReason.NOT_AN_OBJECT),
    "string": (b'"text"', RejectionReason.NOT_AN_OBJECT),
    "null": (b"null", RejectionReason.NOT_AN_OBJECT),
    "too deep": (deep(10_000), RejectionReason.TOO_DEEP),
    "malformed and too deep": (deep(10_000, producer=7), RejectionReason.TOO_DEEP),
    "no time": (without("eventTime"), RejectionReason.NO_TIME),
    "time is null": (event(eventTime=None), RejectionReason.NO_TIME),
    "time is a number": (event(eventTime=1767261600000), RejectionReason.NO_TIME),
    "time is a word": (event(eventTime="yesterday"), RejectionReason.NO_TIME),
    "time out of range": (event(eventTime="0001-01-01T00:00:00+14:00"), RejectionReason.NO_TIME),
    "no identity": (b'{"eventTime": "2026-01-01T10:00:00Z"}', RejectionReason.NO_IDENTITY),
    "incomplete identities": (
        event(run={}, job={"name": "j"}, dataset={"namespace": "n"}),
        RejectionReason.NO_IDENTITY,
    ),
    "no job": (event(job=None), RejectionReason.NO_IDENTITY),
    "no run": (event(run=None, eventType="START"), RejectionReason.NO_IDENTITY),
    "no run, by schema": (
        event(run=None, schemaURL=f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"),
        RejectionReason.NO_IDENTITY,
    ),
    "run without an id": (event(run={"facets": {}}), RejectionReason.NO_IDENTITY),
    "run is a number": (event(run=7), RejectionReason.NO_IDENTITY),
    "job namespace is a number": (event(job={"namespace": 7, "name": "j"}), RejectionReason.NO_IDENTITY),
    "input without a name": (event(inputs=[{"namespace": "n"}]), RejectionReason.NO_IDENTITY),
    "input is a number": (event(inputs=[7]), RejectionReason.NO_IDENTITY),
    "empty run id": (event(run={"runId": ""}), RejectionReason.INVALID_NAME),
    "empty job namespace": (event(job={"namespace": "", "name": "j"}), RejectionReason.INVALID_NAME),
    "empty job name": (event(job={"namespace": "n", "name": ""}), RejectionReason.INVALID_NAME),
    "empty dataset name": (
        event(run=None, job=None, dataset={"namespace": "n", "name": ""}),
        RejectionReason.INVALID_NAME,
    ),
    "empty output name": (event(outputs=[{"namespace": "n", "name": ""}]), RejectionReason.INVALID_NAME),
    "separator in a name": (event(job={"namespace": "n", "name": "a\x1fb"}), RejectionReason.INVALID_NAME),
    "newer spec": (event(schemaURL=f"{SPEC}/3-0-0/OpenLineage.json"), RejectionReason.UNKNOWN_SCHEMA),
    "invalid spec version": (
        event(schemaURL=f"{SPEC}/{'9' * 9999}-0-0/OpenLineage.json"),
        RejectionReason.UNKNOWN_SCHEMA,
    ),
}


@pytest.mark.parametrize("function", [streams.decode_event, streams.validate_event])
@pytest.mark.parametrize(("body", "reason"), REJECTED.values(), ids=REJECTED)
def test_rejects_invalid_events(body: bytes, reason: RejectionReason, function: Callable[[str, bytes], Any]) -> None:
    with pytest.raises(RejectedError) as error:
        function("openlineage", body)
    assert error.value.reason == reason
    assert len(error.value.detail) < 200


def rejection_of(function: Callable[[str, bytes], Any], body: bytes) -> tuple[RejectionReason, str] | None:
    try:
        function("openlineage", body)
    except RejectedError as error:
        return error.reason, error.detail
    return None


NAMES = ("runId", "namespace", "name", "facets")
PARTS = ("eventTime", "eventType", "run", "job", "dataset", "inputs", "outputs", "producer", "schemaURL", "session_id")
SCALARS = st.sampled_from([None, True, 7, 1.5, "", "r", TIME, "é", f"{SPEC}/2-0-2/OpenLineage.json"])
OBJECTS = st.dictionaries(st.sampled_from(NAMES), SCALARS | st.dictionaries(st.just("f"), SCALARS), max_size=4)
EVENTS = st.dictionaries(st.sampled_from(PARTS), SCALARS | OBJECTS | st.lists(OBJECTS, max_size=2))


@given(EVENTS, st.booleans())
def test_validate_event_equals_decode_event(parts: dict[str, Any], has_time: bool) -> None:
    body = json.dumps({**parts, **({"eventTime": TIME} if has_time else {})}).encode()
    assert rejection_of(streams.validate_event, body) == rejection_of(streams.decode_event, body)


@pytest.mark.parametrize(
    ("facet", "version"),
    [({"datasetVersion": "3"}, "3"), ({"datasetVersion": 3}, None), ({}, None), (None, None), ("3", None)],
)
def test_parse_dataset_version(facet: Any, version: str | None) -> None:
    dataset = {"namespace": "n", "name": "d", "facets": {"version": facet}}
    decoded: Event = decode_openlineage(event(outputs=[dataset]))
    assert [parse_dataset_version(output.facets) for output in decoded.outputs or ()] == [version]


def test_parse_dataset_version_without_facets() -> None:
    assert parse_dataset_version(None) is None
