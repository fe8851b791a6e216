"""Tests of decoding notebook events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.events import streams
from clew.events.decoding import RejectedError, RejectionReason
from clew.events.notebook import DataFrameEvent, RuntimeEvent, decode_notebook, frame_to_dict, split_cell_name

CONTEXT = {"session_id": "6ac33987", "execution_id": "3731cb9b", "timestamp": "2026-01-01T10:00:00Z"}


def runtime(**parts: Any) -> bytes:
    return json.dumps({"event_type": "cell_execution_end", **CONTEXT, **parts}).encode()


def dataframe(**parts: Any) -> bytes:
    return json.dumps({"event_type": "dataframe_lineage", **CONTEXT, **parts}).encode()


@pytest.mark.parametrize(
    ("parts", "field", "value"),
    [
        ({"cell_index": 3}, "cell_index", 3),
        ({"cell_index": "3"}, "cell_index", 3),
        ({"cell_index": 3.0}, "cell_index", 3),
        ({"cell_index": 3.5}, "cell_index", None),
        ({"cell_index": 10**30}, "cell_index", None),
        ({"cell_index": -(2**63)}, "cell_index", -(2**63)),
        ({"cell_index": "third"}, "cell_index", None),
        ({"duration_ms": "1e999"}, "duration_ms", None),
        ({"duration_ms": 7}, "duration_ms", 7.0),
        ({"stopped": "maybe"}, "stopped", None),
        ({"error_info": "boom"}, "error_info", None),
        ({"cell_source": None}, "cell_source", None),
        ({"notebook": ["orders.py"]}, "notebook", None),
        ({"unheard_of": {"a": 1}}, "cell_index", None),
    ],
)
def test_malformed_field_becomes_none(parts: dict[str, Any], field: str, value: object) -> None:
    event = decode_notebook(runtime(cell_id="MJUe", **parts), RuntimeEvent)
    assert getattr(event, field) == value
    assert event.cell_id == "MJUe"


def test_malformed_field_of_an_operation_becomes_none() -> None:
    event = decode_notebook(
        dataframe(line="two", operation_code="df.head()", operation_parameters={"n": 5}), DataFrameEvent
    )
    assert (event.line, event.operation_code, bytes(event.operation_parameters)) == (None, "df.head()", b'{"n": 5}')


@pytest.mark.parametrize(
    ("shape", "rows", "columns"),
    [([4, 3], 4, 3), ([4], 4, None), ([], None, None), (None, None, None), ([4, 3, 9], 4, 3)],
)
def test_shape_gives_row_and_column_count(shape: list[int] | None, rows: int | None, columns: int | None) -> None:
    event = decode_notebook(dataframe(output_dataframes=[{"variable_name": "df", "shape": shape}]), DataFrameEvent)
    values = frame_to_dict((event.output_dataframes or [])[0])
    assert (values["row_count"], values["column_count"]) == (rows, columns)


REJECTED = {
    "not UTF-8": (b'{"event_type": "\xff"}', RejectionReason.NOT_UTF8),
    "not JSON": (b"{'event_type': 1}", RejectionReason.NOT_JSON),
    "malformed field, truncated": (runtime(cell_index="x")[:-5], RejectionReason.NOT_JSON),
    "trailing text": (runtime() + b"x", RejectionReason.NOT_JSON),
    "list": (b"[]", RejectionReason.NOT_AN_OBJECT),
    "too deep": (runtime()[:-1] + b', "x": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", RejectionReason.TOO_DEEP),
    "no type": (runtime(event_type=None), RejectionReason.NO_IDENTITY),
    "no session": (runtime(session_id=None), RejectionReason.NO_IDENTITY),
    "empty session": (runtime(session_id=""), RejectionReason.INVALID_NAME),
    "separator in a session": (runtime(session_id="a\x1fb"), RejectionReason.INVALID_NAME),
    "session is a number": (runtime(session_id=7), RejectionReason.NO_IDENTITY),
    "no execution": (runtime(execution_id=None), RejectionReason.NO_IDENTITY),
    "time is a number": (runtime(timestamp=7), RejectionReason.NO_TIME),
    "not a time": (runtime(timestamp="whenever"), RejectionReason.NO_TIME),
    "time out of range": (runtime(timestamp="0001-01-01T00:00:00+14:00"), RejectionReason.NO_TIME),
}


def test_a_runtime_event_needs_a_time() -> None:
    with pytest.raises(RejectedError, match="no_time"):
        decode_notebook(runtime(timestamp=None), RuntimeEvent)


@pytest.mark.parametrize("timestamp", [None, ""])
def test_a_dataframe_event_without_a_time_has_the_time_received(timestamp: str | None) -> None:
    body, received_at = dataframe(timestamp=timestamp), "2026-02-03T04:05:06+00:00"
    assert decode_notebook(body, DataFrameEvent, received_at).timestamp == received_at
    assert decode_notebook(dataframe(), DataFrameEvent, received_at).timestamp == CONTEXT["timestamp"]


@pytest.mark.parametrize("stream", ["runtime", "dataframe"])
@pytest.mark.parametrize(("body", "reason"), REJECTED.values(), ids=REJECTED)
def test_rejects_invalid_events(body: bytes, reason: RejectionReason, stream: str) -> None:
    with pytest.raises(RejectedError) as error:
        streams.decode_event(stream, body)
    assert error.value.reason == reason


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("eda/load/pandas_read_csv", ("eda", "load", "pandas_read_csv")),
        ("shop/analysis/eda/load/dataframe_head.2", ("shop/analysis/eda", "load", "dataframe_head.2")),
        ("shop/eda/load/dataframe", ("shop/eda", "load", "dataframe")),
        ("shop/eda/load/_private", ("shop/eda", "load", "_private")),
        ("shop/eda/In[2]/dataframe_head", ("shop/eda", "In[2]", "dataframe_head")),
        ("shop/analysis/eda", None),
        ("shop/analysis/eda/orders", None),
        ("eda/dataframe_head", None),
    ],
)
def test_split_name_of_an_operation(name: str, parts: tuple[str, str, str] | None) -> None:
    assert split_cell_name(name) == parts
