"""Minimum, maximum and null count of a file's columns, as Delta readers use them to skip files."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

# The statistics stand in the Delta log, so of a longer text only its beginning does. To leave it out would be worse:
# to pyarrow readers of deltalake 1.6 a file without bounds holds no row that a filter on the column could want.
_LONGEST_TEXT = 64
_AFTER_ALL = "\U0010ffff"
_LAST = datetime.max.replace(tzinfo=UTC) - timedelta(milliseconds=1)


def statistics(rows: pa.Table, large: frozenset[str]) -> str:
    """The `stats` of a Delta add action."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if name in large or not _is_comparable(column.type):
            continue
        nulls[name] = column.null_count
        bounds = pc.min_max(column)
        least, most = _bound(bounds["min"].as_py(), is_upper=False), _bound(bounds["max"].as_py(), is_upper=True)
        if least is not None and most is not None:
            low[name], high[name] = least, most
    return json.dumps({"numRecords": rows.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls})


def _is_comparable(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_int64, pa.types.is_float64, pa.types.is_timestamp, pa.types.is_boolean)
    return any(test(kind) for test in tests)


def _bound(value: Any, *, is_upper: bool) -> Any:
    """A value that bounds a column, as JSON can say it; None where there is none."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else _beginning(value, is_upper=is_upper)
    if isinstance(value, datetime):
        return _milliseconds(value, is_upper=is_upper)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _beginning(text: str, *, is_upper: bool) -> str | None:
    beginning = text[:_LONGEST_TEXT]
    if not is_upper:
        return beginning
    return None if text[_LONGEST_TEXT] == _AFTER_ALL else beginning + _AFTER_ALL


def _milliseconds(moment: datetime, *, is_upper: bool) -> str | None:
    # Delta writes milliseconds: a cut maximum would let a reader skip the row that holds it.
    if is_upper and moment.microsecond % 1000:
        if moment > _LAST:
            return None
        moment += timedelta(milliseconds=1)
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
