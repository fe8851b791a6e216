"""Keeping the lake tidy: small files merged, files that no version needs removed. Safe beside a running pipeline."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from deltalake import ColumnProperties, DeltaTable, WriterProperties
from deltalake.exceptions import CommitFailedError, DeltaError

from clew.errors import ClewError
from clew.lake.delta import Lake
from clew.lake.tables import DERIVED_TABLE_NAMES, EVENT_TABLES, Table

TARGET_BYTES: Final = 128 << 20
# Files younger than a day may belong to a batch that is being written, or to a query that is being read.
SAFE_HOURS: Final = 24
# Speed over size, as for batches.
_CODEC_LEVEL = 1


def merge_files(lake: Lake, *, target_bytes: int = TARGET_BYTES) -> dict[str, tuple[int, int]]:
    """Merge small files of each event table into larger ones; gives the number of files before and after, by table.

    Rows and their order stay. Batches that are committed meanwhile do too: a merge only replaces files that it read.
    """
    return {table.name: _merge(lake, table, target_bytes) for table in EVENT_TABLES}


def remove_files(lake: Lake, retention_hours: int) -> dict[str, tuple[int, int]]:
    """Remove files that no version younger than the retention names, and those of workers that were killed.

    Gives number and bytes of the files removed, by table.
    """
    names = (*(table.name for table in EVENT_TABLES), *DERIVED_TABLE_NAMES)
    return {name: _vacuum(lake.root / name, retention_hours) for name in names if lake.table(name) is not None}


def _merge(lake: Lake, table: Table, target_bytes: int) -> tuple[int, int]:
    delta = lake.table(table.name)
    if delta is None:
        return 0, 0
    before = len(delta.file_uris())
    try:
        # One at a time: each task holds a file of the target size in memory.
        delta.optimize.compact(
            target_size=target_bytes, max_concurrent_tasks=1, writer_properties=_writing(table.large)
        )
    except CommitFailedError as fault:
        hint = "Nothing was changed. Wait for the other to end, then run it again."
        raise ClewError(f"Someone else is merging files of {table.name} as well: {fault}.", hint=hint) from fault
    except DeltaError as fault:
        hint = "Nothing was changed: a table is as it was until its merge is committed."
        raise ClewError(f"Files of {table.name} cannot be merged: {fault}.", hint=hint) from fault
    return before, len(lake.files(table.name))


def _writing(large: frozenset[str]) -> WriterProperties:
    plain = ColumnProperties(dictionary_enabled=False, statistics_enabled="NONE")
    columns = dict.fromkeys(large, plain)
    return WriterProperties(compression="ZSTD", compression_level=_CODEC_LEVEL, column_properties=columns)


def _vacuum(folder: Path, retention_hours: int) -> tuple[int, int]:
    vacuum = partial(
        DeltaTable(str(folder)).vacuum, retention_hours=retention_hours, enforce_retention_duration=False, full=True
    )
    # Asked first, because a removed file no longer tells its size.
    sizes = {name: _bytes(folder / name) for name in vacuum(dry_run=True)}
    if not sizes:
        return 0, 0
    removed = vacuum(dry_run=False)
    return len(removed), sum(sizes.get(name, 0) for name in removed)


def _bytes(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
