"""Check of data files: footers, pages with their checksums, and statistics by which readers skip files and rows."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from clew.data_dir import LakeLocation
from clew.lake.storage import open_parquet

# Imported where it is used: it is slow to load.
if TYPE_CHECKING:
    import pyarrow.parquet as pq


class CheckLevel(IntEnum):
    """What a check reads of each data file: nothing, its footer, or all of its pages and their checksums."""

    SIZES = 0
    FOOTERS = 1
    CONTENT = 2


class FileState(IntEnum):
    """State of a data file: intact, not readable, or with statistics that do not match its rows."""

    INTACT = 0
    DAMAGED = 1
    WRONG_STATISTICS = 2


def check_file(path: LakeLocation, level: CheckLevel, action: Mapping[str, Any] | None = None) -> FileState:
    """Check a data file, as far as it is read; `action` is its flattened add action of the Delta log."""
    if level is CheckLevel.SIZES:
        return FileState.INTACT
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(open_parquet(str(path)), page_checksum_verification=True)
        if level is CheckLevel.FOOTERS or _has_valid_statistics(file, action):
            return FileState.INTACT
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return FileState.DAMAGED
    return FileState.WRONG_STATISTICS


def _has_valid_statistics(file: pq.ParquetFile, action: Mapping[str, Any] | None) -> bool:
    """Read all rows; return whether those of each row group and of the file are within their bounds."""
    rows, is_valid = 0, True
    for number in range(file.num_row_groups):
        table, footer = file.read_row_group(number), file.metadata.row_group(number)
        table.validate(full=True)
        rows += table.num_rows
        chunks = {chunk.path_in_schema: chunk for chunk in map(footer.column, range(footer.num_columns))}
        for name, column in zip(table.schema.names, table.columns, strict=True):
            low, high = _find_bounds(column)
            statistics = chunks[name].statistics if name in chunks else None
            if statistics is not None and statistics.has_min_max:
                is_valid &= _is_within(low, high, statistics.min, statistics.max)
            if action is not None:
                bounds = action.get(f"min.{name}"), action.get(f"max.{name}")
                # Without one of its bounds, readers skip the file.
                is_valid &= (bounds[0] is None) == (bounds[1] is None) and _is_within(low, high, *bounds)
    return is_valid and (action is None or action.get("num_records") == rows)


def _find_bounds(column: Any) -> tuple[Any, Any]:
    """Return the lowest and the highest value of a column; None for a type without statistics."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        bounds = pc.min_max(column)
    except pa.ArrowNotImplementedError:
        return None, None
    return bounds["min"].as_py(), bounds["max"].as_py()


def _is_within(low: Any, high: Any, lower_bound: Any, upper_bound: Any) -> bool:
    """Return whether values are within bounds; None is an unknown value or bound."""
    if low is None or lower_bound is None:
        return True
    try:
        return not (low < lower_bound or high > upper_bound)
    except TypeError:
        # A bound of another type, such as bytes, is not compared.
        return True
