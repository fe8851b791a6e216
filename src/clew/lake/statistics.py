"""Minimum, maximum and null count of a file's columns, as Delta readers use them to skip files."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

# The statistics stand in the Delta log, so of a longer text only its beginning does. To leave it out would be worse:
# to pyarrow readers of deltalake 1.6 a file without bounds holds no row that a filter on the column could want.
_LONGEST_TEXT = 64
_AFTER_ALL = "\U0010ffff"
_LAST = datetime.max.replace(tzinfo=UTC) - timedelta(milliseconds=1)


def footer_of(writer: pq.ParquetWriter) -> pq.FileMetaData:
    """The footer of a file that was written whole.

    pyarrow's own `metadata_collector` asks for it in any case, and where the disk is full that fault hides the disk's.
    """
    return writer.writer.metadata


def statistics(rows: pa.Table, large: frozenset[str], footer: pq.FileMetaData) -> str:
    """The `stats` of a Delta add action for the file that holds the rows: as its footer tells them, where it does."""
    told = _told(footer)
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if name in large or not _is_comparable(column.type):
            continue
        nulls[name] = column.null_count
        bounds = _bounds(column, told[name])
        least, most = _bound(bounds[0], is_upper=False), _bound(bounds[1], is_upper=True)
        if least is not None and most is not None:
            low[name], high[name] = least, most
    return json.dumps({"numRecords": rows.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls})


def _told(footer: pq.FileMetaData) -> dict[str, list[pq.Statistics]]:
    """What the footer says of each row group's part of a column, by the column's name."""
    told = defaultdict(list)
    groups = [footer.row_group(place) for place in range(footer.num_row_groups)]
    for part in (group.column(place) for group in groups for place in range(group.num_columns)):
        told[part.path_in_schema].append(part.statistics)
    return told


def _bounds(column: pa.ChunkedArray, told: Sequence[pq.Statistics]) -> tuple[Any, Any]:
    # Of a text of kilobytes, and of a part without values, no footer tells.
    if told and all(part is not None and part.has_min_max for part in told):
        return min(part.min for part in told), max(part.max for part in told)
    found = pc.min_max(column)
    return found["min"].as_py(), found["max"].as_py()


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
