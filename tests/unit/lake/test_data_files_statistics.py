"""Statistics are true bounds: a reader that trusts them skips no row."""

from __future__ import annotations

import io
import json
import math
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.lake.data_files import compute_statistics

VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), st.text(max_size=70)),
    "number": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "amount": (pa.float64(), st.floats(allow_nan=False)),
    "flag": (pa.bool_(), st.booleans()),
    "moment": (pa.timestamp("us", tz="UTC"), st.datetimes(timezones=st.just(UTC))),
}


def bounds(kind: pa.DataType, values: list[Any]) -> dict[str, Any]:
    return told(pa.table({"c": pa.array(values, kind)}))


def told(rows: pa.Table, large: frozenset[str] = frozenset()) -> dict[str, Any]:
    footers: list[pq.FileMetaData] = []
    pq.write_table(rows, io.BytesIO(), row_group_size=3, metadata_collector=footers)
    found: dict[str, Any] = json.loads(compute_statistics(rows, large, footers[-1]))
    return found


def order(value: Any) -> Any:
    """What Delta compares: texts by their bytes."""
    return value.encode() if isinstance(value, str) else value


def read(bound: Any, kind: pa.DataType) -> Any:
    return datetime.fromisoformat(bound) if pa.types.is_timestamp(kind) else bound


@pytest.mark.parametrize("name", VALUES)
@given(data=st.data())
def test_no_value_lies_outside(name: str, data: st.DataObject) -> None:
    kind, strategy = VALUES[name]
    values = data.draw(st.lists(st.none() | strategy, max_size=8))
    found = bounds(kind, values)
    known = [value for value in values if value is not None]
    assert found["numRecords"] == len(values)
    assert found["nullCount"] == {"c": len(values) - len(known)}
    assert found["minValues"].keys() == found["maxValues"].keys()
    if "c" in found["minValues"]:
        low, high = read(found["minValues"]["c"], kind), read(found["maxValues"]["c"], kind)
        assert all(order(low) <= order(value) <= order(high) for value in known)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), []),
        (pa.string(), [None, None]),
        (pa.string(), ["a", "b" * 64 + "\U0010ffff"]),
        (pa.float64(), [1.0, math.inf]),
        (pa.float64(), [math.nan, math.nan]),
        (pa.timestamp("us", tz="UTC"), [datetime.max.replace(tzinfo=UTC)]),
    ],
)
def test_where_no_bound_can_be_told_none_is(kind: pa.DataType, values: list[Any]) -> None:
    assert bounds(kind, values)["minValues"] == {}


def test_milliseconds_are_rounded_outwards() -> None:
    moments = [datetime(2026, 1, 1, 10, 0, 0, 1999, UTC), datetime(2026, 1, 1, 10, 0, 0, 5001, UTC)]
    found = bounds(pa.timestamp("us", tz="UTC"), moments)
    assert (found["minValues"]["c"], found["maxValues"]["c"]) == (
        "2026-01-01T10:00:00.001Z",
        "2026-01-01T10:00:00.006Z",
    )


def test_of_a_long_text_its_beginning_is_the_bound() -> None:
    found = bounds(pa.string(), ["a" * 100, "b" * 100])
    assert (found["minValues"]["c"], found["maxValues"]["c"]) == ("a" * 64, "b" * 64 + "\U0010ffff")


def test_bounds_are_of_all_row_groups() -> None:
    found = bounds(pa.string(), ["d", "c", "b", None, None, None, "f", "a", "e"])
    assert (found["minValues"]["c"], found["maxValues"]["c"]) == ("a", "f")


def test_of_texts_that_are_too_long_for_a_footer_bounds_are_told() -> None:
    found = bounds(pa.string(), ["b", "a" * 10_000])
    assert (found["minValues"]["c"], found["maxValues"]["c"]) == ("a" * 64, "b")


def test_large_and_nested_columns_have_none() -> None:
    rows = pa.table({"body": ["x"], "list": [[1]], "n": [1]})
    assert told(rows, frozenset({"body"}))["minValues"] == {"n": 1}
