"""What is taken of an OpenLineage event, and what is refused."""

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
    whole = {"eventTime": TIME, "run": {"runId": "r"}, "job": {"namespace": "n", "name": "j"}, **parts}
    return json.dumps(whole).encode()


def names(datasets: list[Any] | None) -> list[str]:
    return [dataset.name for dataset in datasets or ()]


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ({}, "RUN"),
        ({"job": None}, "RUN"),
        ({"dataset": {"namespace": "n", "name": "d"}}, "RUN"),
        ({"run": None}, "JOB"),
        ({"run": {"runId": ""}}, "JOB"),
        ({"run": {"facets": {}}}, "JOB"),
        ({"run": None, "dataset": {"namespace": "n", "name": "d"}}, "JOB"),
        ({"run": None, "job": None, "dataset": {"namespace": "n", "name": "d"}}, "DATASET"),
        ({"run": 7, "job": "j", "dataset": {"namespace": "n", "name": "d"}}, "DATASET"),
    ],
)
def test_the_shape_tells_the_kind(parts: dict[str, Any], kind: str) -> None:
    assert decode_openlineage(event(**parts)).kind == kind


@pytest.mark.parametrize(
    ("parts", "kept"),
    [
        ({"eventType": 7}, lambda e: e.event_type is None),
        ({"eventType": "WHATEVER"}, lambda e: e.event_type == "WHATEVER"),
        ({"producer": None, "schemaURL": []}, lambda e: (e.producer, e.schema_url) == (None, None)),
        ({"producer": "marimo-lineage-tracker"}, lambda e: e.producer == "marimo-lineage-tracker"),
        ({"schemaURL": f"{SPEC}/1-0-5/OpenLineage.json"}, lambda e: e.schema_url.endswith("1-0-5/OpenLineage.json")),
        ({"inputs": None, "outputs": {}}, lambda e: names(e.inputs) == names(e.outputs) == []),
        ({"inputs": [{"namespace": "n"}, 7, {"namespace": "n", "name": "d"}]}, lambda e: names(e.inputs) == ["d"]),
        ({"run": {"runId": "no-uuid", "facets": [1]}}, lambda e: e.run == type(e.run)("no-uuid")),
        ({"run": {"runId": "r", "facets": {"a": None, "b": "t"}}}, lambda e: list(e.run.facets) == ["a", "b"]),
        ({"job": {"namespace": 7, "name": "j"}}, lambda e: e.job is None),
        ({"session_id": 7, "execution_id": "e"}, lambda e: (e.session_id, e.execution_id) == (None, "e")),
        ({"unknown": {"a": [1]}}, lambda e: e.kind == "RUN"),
    ],
)
def test_a_flaw_costs_no_more_than_itself(parts: dict[str, Any], kept: Any) -> None:
    opened = decode_openlineage(event(**parts))
    assert kept(opened)
    assert opened.run is not None
    assert opened.run.run_id


def test_the_sound_facets_of_a_flawed_event_are_kept_byte_for_byte() -> None:
    body = b'{"eventTime": "%s", "producer": 7, "run": {"runId": "r", "facets": {"odd": {"x" :1.50,  "y":"\\u00e9" }}}}'
    run = decode_openlineage(body % TIME.encode()).run
    assert run is not None
    assert bytes((run.facets or {})["odd"]) == b'{"x" :1.50,  "y":"\\u00e9" }'


def test_of_keys_that_stand_twice_the_last_counts() -> None:
    body = b'{"eventTime": "x", "eventTime": "%s", "run": {"runId": "a", "runId": "b", "facets": {"f": 1, "f": 2}}}'
    run = decode_openlineage(body % TIME.encode()).run
    assert run is not None
    assert (run.run_id, bytes((run.facets or {})["f"])) == ("b", b"2")


def test_an_event_of_ten_megabytes_is_opened() -> None:
    facet = {"plan": "x" * 10_000_000}
    opened = decode_openlineage(event(run={"runId": "r", "facets": {"spark.logicalPlan": facet}}))
    assert opened.run is not None
    assert len(bytes((opened.run.facets or {})["spark.logicalPlan"])) > 10_000_000


def deep(levels: int, **parts: Any) -> bytes:
    return event(**parts)[:-1] + b', "deep": ' + b"[" * levels + b"]" * levels + b"}"


def without(name: str) -> bytes:
    parts = json.loads(event())
    del parts[name]
    return json.dumps(parts).encode()


REJECTED = {
    "no text": (b"\xff\xfe{}", RejectionReason.NOT_UTF8),
    "bad text in a facet": (
        event(run={"runId": "r", "facets": {"f": "?"}}).replace(b"?", b"\xe9"),
        RejectionReason.NOT_UTF8,
    ),
    "bad text in a flawed event": (event(producer=7, x="?").replace(b"?", b"\xe9"), RejectionReason.NOT_UTF8),
    "nothing": (b"", RejectionReason.NOT_JSON),
    "words": (b"not json", RejectionReason.NOT_JSON),
    "cut off": (event()[:-20], RejectionReason.NOT_JSON),
    "flawed, then cut off": (b'{"eventTime": 7, "run": {"runId": "r"', RejectionReason.NOT_JSON),
    "NaN": (event(x="?").replace(b'"?"', b"NaN"), RejectionReason.NOT_JSON),
    "NaN in a facet": (
        event(run={"runId": "r", "facets": {"f": "?"}}).replace(b'"?"', b"NaN"),
        RejectionReason.NOT_JSON,
    ),
    "text behind": (event() + b" trailing", RejectionReason.NOT_JSON),
    "text behind a flawed event": (event(producer=7) + b"}", RejectionReason.NOT_JSON),
    "half a surrogate pair": (event(x="?").replace(b"?", b"\\ud800"), RejectionReason.NOT_JSON),
    "byte order mark": ("\ufeff".encode() + event(), RejectionReason.NOT_JSON),
    "a list": (b"[1, 2]", RejectionReason.NOT_AN_OBJECT),
    "a text": (b'"text"', RejectionReason.NOT_AN_OBJECT),
    "null": (b"null", RejectionReason.NOT_AN_OBJECT),
    "deep": (deep(10_000), RejectionReason.TOO_DEEP),
    "flawed and deep": (deep(10_000, producer=7), RejectionReason.TOO_DEEP),
    "no time": (without("eventTime"), RejectionReason.NO_TIME),
    "time is null": (event(eventTime=None), RejectionReason.NO_TIME),
    "time is a number": (event(eventTime=1767261600000), RejectionReason.NO_TIME),
    "time is a word": (event(eventTime="yesterday"), RejectionReason.NO_TIME),
    "time before all times": (event(eventTime="0001-01-01T00:00:00+14:00"), RejectionReason.NO_TIME),
    "no identity": (b'{"eventTime": "2026-01-01T10:00:00Z"}', RejectionReason.NO_IDENTITY),
    "half identities": (event(run={}, job={"name": "j"}, dataset={"namespace": "n"}), RejectionReason.NO_IDENTITY),
    "empty run id": (event(run={"runId": ""}, job=None), RejectionReason.NO_IDENTITY),
    "newer model": (event(schemaURL=f"{SPEC}/3-0-0/OpenLineage.json"), RejectionReason.UNKNOWN_SCHEMA),
    "absurd model": (event(schemaURL=f"{SPEC}/{'9' * 9999}-0-0/OpenLineage.json"), RejectionReason.UNKNOWN_SCHEMA),
}


@pytest.mark.parametrize("look", [streams.decode_event, streams.validate_event])
@pytest.mark.parametrize(("body", "reason"), REJECTED.values(), ids=REJECTED)
def test_what_can_never_be_stored_is_rejected(
    body: bytes, reason: RejectionReason, look: Callable[[str, bytes], Any]
) -> None:
    with pytest.raises(RejectedError) as fault:
        look("openlineage", body)
    assert fault.value.reason == reason
    assert len(fault.value.detail) < 200


def fault_of(look: Callable[[str, bytes], Any], body: bytes) -> tuple[RejectionReason, str] | None:
    try:
        look("openlineage", body)
    except RejectedError as fault:
        return fault.reason, fault.detail
    return None


NAMES = ("runId", "namespace", "name", "facets")
PARTS = ("eventTime", "eventType", "run", "job", "dataset", "inputs", "outputs", "producer", "schemaURL", "session_id")
SCALARS = st.sampled_from([None, True, 7, 1.5, "", "r", TIME, "é", f"{SPEC}/2-0-2/OpenLineage.json"])
OBJECTS = st.dictionaries(st.sampled_from(NAMES), SCALARS | st.dictionaries(st.just("f"), SCALARS), max_size=4)
EVENTS = st.dictionaries(st.sampled_from(PARTS), SCALARS | OBJECTS | st.lists(OBJECTS, max_size=2))


@given(EVENTS, st.booleans())
def test_a_glance_rejects_what_a_look_rejects(parts: dict[str, Any], has_time: bool) -> None:
    body = json.dumps({**parts, **({"eventTime": TIME} if has_time else {})}).encode()
    assert fault_of(streams.validate_event, body) == fault_of(streams.decode_event, body)


@pytest.mark.parametrize(
    ("facet", "version"),
    [({"datasetVersion": "3"}, "3"), ({"datasetVersion": 3}, None), ({}, None), (None, None), ("3", None)],
)
def test_a_dataset_has_the_version_of_its_facet(facet: Any, version: str | None) -> None:
    dataset = {"namespace": "n", "name": "d", "facets": {"version": facet}}
    opened: Event = decode_openlineage(event(outputs=[dataset]))
    assert [parse_dataset_version(one.facets) for one in opened.outputs or ()] == [version]


def test_a_dataset_without_facets_has_no_version() -> None:
    assert parse_dataset_version(None) is None
