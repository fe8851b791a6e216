"""Tests of file statistics: they are true bounds, so that pruning skips no row."""

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


def column_statistics(kind: pa.DataType, values: list[Any]) -> dict[str, Any]:
    return table_statistics(pa.table({"c": pa.array(values, kind)}))


def table_statistics(rows: pa.Table, large: frozenset[str] = frozenset()) -> dict[str, Any]:
    footers: list[pq.FileMetaData] = []
    pq.write_table(rows, io.BytesIO(), row_group_size=3, metadata_collector=footers)
    statistics: dict[str, Any] = json.loads(compute_statistics(rows, large, footers[-1]))
    return statistics


def sort_key(value: Any) -> Any:
    """Return the sort key of Delta: strings compare by their UTF-8 bytes."""
    return value.encode() if isinstance(value, str) else value


def parse_bound(bound: Any, kind: pa.DataType) -> Any:
    return datetime.fromisoformat(bound) if pa.types.is_timestamp(kind) else bound


@pytest.mark.parametrize("name", VALUES)
@given(data=st.data())
def test_values_are_within_bounds(name: str, data: st.DataObject) -> None:
    kind, strategy = VALUES[name]
    values = data.draw(st.lists(st.none() | strategy, max_size=8))
    statistics = column_statistics(kind, values)
    not_null = [value for value in values if value is not None]
    assert statistics["numRecords"] == len(values)
    assert statistics["nullCount"] == {"c": len(values) - len(not_null)}
    assert statistics["minValues"].keys() == statistics["maxValues"].keys()
    if "c" in statistics["minValues"]:
        low, high = parse_bound(statistics["minValues"]["c"], kind), parse_bound(statistics["maxValues"]["c"], kind)
        assert all(sort_key(low) <= sort_key(value) <= sort_key(high) for value in not_null)


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
def test_no_bounds_without_values_or_order(kind: pa.DataType, values: list[Any]) -> None:
    assert column_statistics(kind, values)["minValues"] == {}


def test_timestamps_are_rounded_outwards_to_milliseconds() -> None:
    timestamps = [datetime(2026, 1, 1, 10, 0, 0, 1999, UTC), datetime(2026, 1, 1, 10, 0, 0, 5001, UTC)]
    statistics = column_statistics(pa.timestamp("us", tz="UTC"), timestamps)
    assert (statistics["minValues"]["c"], statistics["maxValues"]["c"]) == (
        "2026-01-01T10:00:00.001Z",
        "2026-01-01T10:00:00.006Z",
    )


def test_bounds_of_long_strings_are_truncated() -> None:
    statistics = column_statistics(pa.string(), ["a" * 100, "b" * 100])
    assert (statistics["minValues"]["c"], statistics["maxValues"]["c"]) == ("a" * 64, "b" * 64 + "\U0010ffff")


def test_bounds_cover_all_row_groups() -> None:
    statistics = column_statistics(pa.string(), ["d", "c", "b", None, None, None, "f", "a", "e"])
    assert (statistics["minValues"]["c"], statistics["maxValues"]["c"]) == ("a", "f")


def test_bounds_of_strings_too_long_for_the_footer() -> None:
    statistics = column_statistics(pa.string(), ["b", "a" * 10_000])
    assert (statistics["minValues"]["c"], statistics["maxValues"]["c"]) == ("a" * 64, "b")


def test_no_bounds_of_large_and_nested_columns() -> None:
    rows = pa.table({"body": ["x"], "list": [[1]], "n": [1]})
    assert table_statistics(rows, frozenset({"body"}))["minValues"] == {"n": 1}
