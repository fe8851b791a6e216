"""Compaction and vacuum of the lake. Safe while a pipeline runs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import accumulate
from typing import Final

import pyarrow as pa

from clew.errors import ClewError
from clew.home import LakeLocation
from clew.lake.clustering import SizedFile, inspect_file, rewrite_sorted
from clew.lake.delta import WORKER_REPORTS_DIR, Lake
from clew.lake.exchange import ActiveFile, active_files, replace_files
from clew.lake.storage import Storage, open_storage
from clew.lake.tables import DERIVED_TABLE_NAMES, EVENT_TABLE_NAMES, EVENT_TABLES, Table

# Uncompressed size of a compacted file; on disk it is 5 to 30 times smaller.
TARGET_BYTES: Final = 128 << 20
# Younger files may belong to a running batch or query.
MIN_SAFE_RETENTION_HOURS: Final = 24


def compact_tables(
    lake: Lake, *, target_bytes: int = TARGET_BYTES, is_size_tiered: bool = False
) -> dict[str, tuple[int, int]]:
    """Compact small files of each event table into sorted ones; return the number of files before and after, by table.

    Only files that were read are replaced, so concurrently committed batches are preserved. Size-tiered: a file is
    rewritten only once the smaller files together are as large, so a row is rewritten O(log n) times.
    """
    return {
        table.name: compact_table(lake, table, target_bytes, is_size_tiered=is_size_tiered) for table in EVENT_TABLES
    }


def compact_table(lake: Lake, table: Table, target_bytes: int, *, is_size_tiered: bool) -> tuple[int, int]:
    """Compact small files of one event table; return the number of files before and after."""
    delta = lake.table(table.name)
    if delta is None:
        return 0, 0
    files = active_files(delta)
    folder, schema = lake.root / table.name, pa.schema(delta.schema().to_arrow())
    small = _select_files(_inspect_files(folder, files), target_bytes, is_gradual=is_size_tiered)
    for group in _group_files(small, target_bytes):
        compacted = rewrite_sorted(folder, table, schema, group)
        try:
            replace_files(lake, table.name, group, [compacted], is_data_change=False)
        except ClewError:
            lake.delete_uncommitted([compacted])
            raise
    return len(files), len(lake.files(table.name))


def vacuum_tables(
    lake: Lake, retention_hours: int, names: tuple[str, ...] = (*EVENT_TABLE_NAMES, *DERIVED_TABLE_NAMES)
) -> dict[str, tuple[int, int]]:
    """Delete files that no retained version uses, leftovers of killed workers and expired Delta log entries.

    Return number and bytes of deleted files by table.
    """
    _delete_old_reports(open_storage(lake.root / WORKER_REPORTS_DIR))
    return {name: _vacuum(lake, name, retention_hours) for name in names if lake.table(name) is not None}


def _inspect_files(folder: LakeLocation, files: list[ActiveFile]) -> list[SizedFile]:
    try:
        return [inspect_file(folder, file) for file in files]
    except (OSError, pa.ArrowInvalid) as error:
        message = f"A file of the table {folder.name} cannot be read: {error}."
        hint = (
            "Restore it from a backup; or move lake, index and checkpoint away and run `clew pipeline run`,"
            " which recreates them from the log."
        )
        raise ClewError(message, hint=hint) from error


def _select_files(files: list[SizedFile], target_bytes: int, *, is_gradual: bool) -> list[SizedFile]:
    if not is_gradual:
        return [file for file in files if file.uncompressed_bytes < target_bytes // 2 or not file.is_sorted]
    small = sorted(
        (file for file in files if file.uncompressed_bytes < target_bytes // 2),
        key=lambda file: file.uncompressed_bytes,
    )
    sums = accumulate(file.uncompressed_bytes for file in small)
    selected = [
        index
        for index, (file, total) in enumerate(zip(small, sums, strict=True))
        if 2 * file.uncompressed_bytes <= total
    ]
    return small[: selected[-1] + 1] if selected else []


def _group_files(files: Iterable[SizedFile], target_bytes: int) -> Iterator[list[ActiveFile]]:
    """Group files up to `target_bytes`; a single file only if it has to be sorted."""
    group: list[SizedFile] = []
    for file in files:
        if group and sum(other.uncompressed_bytes for other in group) + file.uncompressed_bytes > target_bytes:
            yield from _if_rewrite_needed(group)
            group = []
        group.append(file)
    yield from _if_rewrite_needed(group)


def _if_rewrite_needed(group: list[SizedFile]) -> Iterator[list[ActiveFile]]:
    if len(group) > 1 or any(not file.is_sorted for file in group):
        yield [file.file for file in group]


def _vacuum(lake: Lake, name: str, retention_hours: int) -> tuple[int, int]:
    table = lake.storage.open_table(name)
    table.cleanup_metadata()
    vacuum = partial(table.vacuum, retention_hours=retention_hours, enforce_retention_duration=False, full=True)
    if not vacuum(dry_run=True):
        return 0, 0
    # Sizes are read before the files are deleted.
    sizes = {entry.name: entry.size for entry in open_storage(lake.root / name).list_files()}
    deleted = vacuum(dry_run=False)
    return len(deleted), sum(sizes.get(file, 0) for file in deleted)


def _delete_old_reports(reports: Storage) -> None:
    """Delete reports that a killed driver has not read."""
    oldest = time.time() - MIN_SAFE_RETENTION_HOURS * 3600
    for entry in reports.list_files():
        if entry.written_at < oldest:
            reports.remove(entry.name)
