"""Keeping the lake tidy: small files merged, files that no version needs removed. Safe beside a running pipeline."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import accumulate
from typing import Final

import pyarrow as pa

from clew.errors import ClewError
from clew.home import LakePlace
from clew.lake.clustering import Weighed, cluster, weighed
from clew.lake.delta import REPORTS, Lake
from clew.lake.exchange import LiveFile, exchange, live_files
from clew.lake.storage import Storage, storage_at
from clew.lake.tables import DERIVED_TABLE_NAMES, EVENT_TABLE_NAMES, EVENT_TABLES, Table

# What is merged into one file, in memory: compressed it is a fifth to a thirtieth of that.
TARGET_BYTES: Final = 128 << 20
# Files younger than a day may belong to a batch that is being written, or to a query that is being read.
SAFE_HOURS: Final = 24


def merge_files(
    lake: Lake, *, target_bytes: int = TARGET_BYTES, is_gradual: bool = False
) -> dict[str, tuple[int, int]]:
    """Merge small files of each event table into larger ones; gives the number of files before and after, by table.

    Rows stay, sorted by what readers ask by. Batches that are committed meanwhile stay too: a merge only replaces
    files that it read. A gradual merge leaves a file alone until those smaller than it make up as much: what is merged
    again and again is then written a few times, not each time.
    """
    return {table.name: merge_table(lake, table, target_bytes, is_gradual=is_gradual) for table in EVENT_TABLES}


def merge_table(lake: Lake, table: Table, target_bytes: int, *, is_gradual: bool) -> tuple[int, int]:
    """Merge small files of one event table; gives the number of files before and after."""
    delta = lake.table(table.name)
    if delta is None:
        return 0, 0
    files = live_files(delta)
    folder, schema = lake.root / table.name, pa.schema(delta.schema().to_arrow())
    small = _mergeable(_weighed(folder, files), target_bytes, is_gradual=is_gradual)
    for group in _groups(small, target_bytes):
        merged = cluster(folder, table, schema, group)
        try:
            exchange(lake, table.name, group, [merged], is_data_change=False)
        except ClewError:
            lake.discard([merged])
            raise
    return len(files), len(lake.files(table.name))


def remove_files(
    lake: Lake, retention_hours: int, names: tuple[str, ...] = (*EVENT_TABLE_NAMES, *DERIVED_TABLE_NAMES)
) -> dict[str, tuple[int, int]]:
    """Remove files that no version younger than the retention names, and those of workers that were killed.

    Of each table's log, what is older than the table says goes, too. Gives number and bytes of the files removed, by
    table.
    """
    _remove_reports(storage_at(lake.root / REPORTS))
    return {name: _vacuum(lake, name, retention_hours) for name in names if lake.table(name) is not None}


def _weighed(folder: LakePlace, files: list[LiveFile]) -> list[Weighed]:
    try:
        return [weighed(folder, file) for file in files]
    except (OSError, pa.ArrowInvalid) as fault:
        message = f"A file of {folder.name} cannot be read: {fault}."
        hint = "Restore it from a copy, or delete lake, index and checkpoint: the log fills them again."
        raise ClewError(message, hint=hint) from fault


def _mergeable(files: list[Weighed], target_bytes: int, *, is_gradual: bool) -> list[Weighed]:
    if not is_gradual:
        return [one for one in files if one.bytes < target_bytes // 2 or not one.is_clustered]
    small = sorted((one for one in files if one.bytes < target_bytes // 2), key=lambda one: one.bytes)
    sums = accumulate(one.bytes for one in small)
    worth = [place for place, (one, total) in enumerate(zip(small, sums, strict=True)) if 2 * one.bytes <= total]
    return small[: worth[-1] + 1] if worth else []


def _groups(files: Iterable[Weighed], target_bytes: int) -> Iterator[list[LiveFile]]:
    """Files that together take so much memory and no more; one alone only if it is to be sorted."""
    group: list[Weighed] = []
    for one in files:
        if group and sum(other.bytes for other in group) + one.bytes > target_bytes:
            yield from _worthwhile(group)
            group = []
        group.append(one)
    yield from _worthwhile(group)


def _worthwhile(group: list[Weighed]) -> Iterator[list[LiveFile]]:
    if len(group) > 1 or any(not one.is_clustered for one in group):
        yield [one.file for one in group]


def _vacuum(lake: Lake, name: str, retention_hours: int) -> tuple[int, int]:
    table = lake.storage.open_table(name)
    table.cleanup_metadata()
    vacuum = partial(table.vacuum, retention_hours=retention_hours, enforce_retention_duration=False, full=True)
    if not vacuum(dry_run=True):
        return 0, 0
    # Asked first, because a removed file no longer tells its size.
    sizes = {entry.name: entry.size for entry in storage_at(lake.root / name).entries()}
    removed = vacuum(dry_run=False)
    return len(removed), sum(sizes.get(file, 0) for file in removed)


def _remove_reports(reports: Storage) -> None:
    """Remove what a driver that was killed has not read."""
    oldest = time.time() - SAFE_HOURS * 3600
    for entry in reports.entries():
        if entry.written_at < oldest:
            reports.remove(entry.name)
