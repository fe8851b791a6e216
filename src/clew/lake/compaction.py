"""Compact, vacuum, delete rows and the history of tables."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from functools import lru_cache, partial, reduce
from itertools import accumulate
from operator import or_
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from clew.data_dir import LakeLocation
from clew.errors import ClewError
from clew.events.notebook import NOTEBOOK_NAMESPACE
from clew.lake.data_files import DataFile, write_data_file
from clew.lake.lake import WORKER_REPORTS_DIR, ActiveFile, Lake, active_files, replace_files
from clew.lake.manifest import RECREATE_HINT
from clew.lake.schemas import (
    ALL_TABLE_NAMES,
    BACKFILLS,
    DATAFRAME_EVENTS,
    EVENT_GRAIN_TABLES,
    EVENT_TABLES,
    LINEAGE_EVENTS,
    REJECTED_EVENTS,
    RUNTIME_EVENTS,
    TABLES_BY_NAME,
    Table,
)
from clew.lake.storage import DELTA_LOG_DIR, Storage, open_storage

# A look-up of one run reads one or two row groups.
_MAX_ROWS_PER_GROUP = 64 << 10
_MAX_BYTES_PER_GROUP = 16 << 20
# Measured on generated events, bytes per event of `lineage_events` and `dataset_facets`: 673 at level 1, 657 at level
# 3. Sorted by job and dataset they would be 406, but then a look-up of one run reads every row group.
_COMPRESSION_LEVEL = 1


class SizedFile(Struct, frozen=True):
    """A file with its size in memory and the columns by which its rows are sorted."""

    file: ActiveFile
    uncompressed_bytes: int
    sort_columns: tuple[str, ...]


@lru_cache(maxsize=1 << 14)
def inspect_file(folder: LakeLocation, file: ActiveFile) -> SizedFile:
    """Read size and sort order from the footer of a file; cached, because files of the lake never change."""
    footer = pq.read_metadata(open_storage(folder).parquet_source(file.name))
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    names = [footer.schema.column(index).path for index in range(footer.num_columns)]
    orders = {tuple(names[column.column_index] for column in group.sorting_columns) for group in groups}
    return SizedFile(file, sum(group.total_byte_size for group in groups), orders.pop() if len(orders) == 1 else ())


def rewrite_sorted(folder: LakeLocation, table: Table, schema: pa.Schema, files: Iterable[ActiveFile]) -> DataFile:
    """Write the rows of `files` as one file sorted by the table's sort columns, without committing it."""
    # Columns that are newer than a file are null.
    rows = open_storage(folder).dataset([file.name for file in files], schema).to_table()
    return write_sorted(folder, table, rows.combine_chunks())


def write_sorted(folder: LakeLocation, table: Table, rows: pa.Table) -> DataFile:
    """Write rows as one file sorted by the table's sort columns, without committing it."""
    ordering = [(name, "ascending") for name in table.sort_columns]
    order, rows_per_group = pc.sort_indices(rows, sort_keys=ordering), _rows_per_group(rows)
    return write_data_file(
        folder,
        table.name,
        rows,
        (rows.take(order.slice(start, rows_per_group)) for start in range(0, rows.num_rows, rows_per_group)),
        table.large_text_columns,
        rows_per_group=rows_per_group,
        compression_level=_COMPRESSION_LEVEL,
        sorting_columns=pq.SortingColumn.from_ordering(rows.schema, ordering, null_placement="at_end"),
    )


def _rows_per_group(rows: pa.Table) -> int:
    bytes_per_row: int = max(1, rows.nbytes // max(1, rows.num_rows))
    return max(1, min(_MAX_ROWS_PER_GROUP, _MAX_BYTES_PER_GROUP // bytes_per_row))


_LOG_ENTRY = re.compile(r"(\d{20})\.")
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
    selected = _select_files(_inspect_files(folder, files), table, target_bytes, is_gradual=is_size_tiered)
    for group in _group_files(selected, table, target_bytes):
        compacted = rewrite_sorted(folder, table, schema, group)
        try:
            replace_files(lake, table.name, group, [compacted], is_data_change=False)
        except ClewError:
            lake.delete_uncommitted([compacted])
            raise
    return len(files), len(lake.files(table.name))


def vacuum_tables(
    lake: Lake, retention_hours: int, names: tuple[str, ...] = ALL_TABLE_NAMES
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
        raise ClewError(message, hint=f"Restore it from a backup. {RECREATE_HINT}") from error


def _select_files(files: list[SizedFile], table: Table, target_bytes: int, *, is_gradual: bool) -> list[SizedFile]:
    if not is_gradual:
        return [file for file in files if file.uncompressed_bytes < target_bytes // 2 or not _is_sorted(file, table)]
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


def _is_sorted(file: SizedFile, table: Table) -> bool:
    return file.sort_columns == table.sort_columns


def _group_files(files: Iterable[SizedFile], table: Table, target_bytes: int) -> Iterator[list[ActiveFile]]:
    """Group files up to `target_bytes`; a single file only if it has to be sorted."""
    group: list[SizedFile] = []
    for file in files:
        if group and sum(other.uncompressed_bytes for other in group) + file.uncompressed_bytes > target_bytes:
            yield from _if_rewrite_needed(group, table)
            group = []
        group.append(file)
    yield from _if_rewrite_needed(group, table)


def _if_rewrite_needed(group: list[SizedFile], table: Table) -> Iterator[list[ActiveFile]]:
    if len(group) > 1 or any(not _is_sorted(file, table) for file in group):
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


class ExpiredKind(StrEnum):
    """Kind of events that retention can be limited to."""

    RUN = "run"
    JOB = "job"
    DATASET = "dataset"
    CELL = "cell"
    OPERATION = "operation"
    REJECTED = "rejected"


class ExpiredSelection(Struct, frozen=True):
    """Events that retention is limited to: by the start of a namespace, and by kind. Empty: all."""

    namespaces: tuple[str, ...] = ()
    kinds: tuple[ExpiredKind, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.namespaces or self.kinds)

    def condition(self, table: str) -> pc.Expression | None:
        """Return the condition of the selected events of a table; None if none is selected."""
        if table == LINEAGE_EVENTS.name:
            subjects = [kind.upper() for kind in self.kinds]
            namespaces = "job_namespace", "dataset_namespace"
            is_of_kind = pc.field("kind").isin(subjects) if self.kinds else pc.scalar(value=True)
            return is_of_kind & self._starts_with(*namespaces) if self.namespaces else is_of_kind
        # Events of notebooks have one namespace, rejected events have none.
        namespace = "" if table == REJECTED_EVENTS.name else NOTEBOOK_NAMESPACE
        is_in_namespace = not self.namespaces or namespace.startswith(self.namespaces)
        is_of_kind = not self.kinds or _KINDS[table] in self.kinds
        return pc.scalar(value=True) if is_in_namespace and is_of_kind else None

    def _starts_with(self, *columns: str) -> pc.Expression:
        # A DatasetEvent has no job; other events have no dataset.
        namespace = pc.coalesce(*map(pc.field, columns), pc.scalar(""))
        return reduce(or_, (pc.starts_with(namespace, prefix) for prefix in self.namespaces))


_KINDS: Final = {
    RUNTIME_EVENTS.name: ExpiredKind.CELL,
    DATAFRAME_EVENTS.name: ExpiredKind.OPERATION,
    REJECTED_EVENTS.name: ExpiredKind.REJECTED,
}


def find_expired_events(lake: Lake, cutoff: datetime, selection: ExpiredSelection) -> pa.Table:
    """Find the selected events received before `cutoff`, by `seq` and `event_id`."""
    tables = [pa.schema([("seq", pa.int64()), ("event_id", pa.string())]).empty_table()]
    for name in EVENT_GRAIN_TABLES:
        files = [file.rpartition("/")[2] for file in lake.files(name)]
        condition = selection.condition(name)
        if files and condition is not None:
            events = open_storage(lake.root / name).dataset(files, TABLES_BY_NAME[name].schema)
            is_expired = (pc.field("received_at") < pa.scalar(cutoff)) & condition
            tables.append(events.to_table(columns=["seq", "event_id"], filter=is_expired))
    return pa.concat_tables(tables)


def delete_rows_before(lake: Lake, cutoff: datetime, events: pa.Array) -> dict[str, int]:
    """Delete rows received before `cutoff`; return the number of rows by table. No pipeline may be running.

    Events are deleted last, so that an interrupted deletion can be repeated.
    """
    return {table.name: _delete(lake, table, _is_retained(table, cutoff, events)) for table in EVENT_TABLES}


def replace_events(lake: Lake, seqs: pa.Array, rewritten: Sequence[DataFile]) -> dict[str, int]:
    """Replace all rows of events by the rows of files; return the number of deleted rows by table.

    No pipeline may be running. Events are replaced last, so that an interrupted call can be repeated.
    """
    others = ~pc.field("seq").isin(seqs)
    return {
        table.name: _delete(lake, table, others, [file for file in rewritten if file.table == table.name])
        for table in EVENT_TABLES
    }


def purge_history(lake: Lake) -> None:
    """Delete everything that only earlier versions of the tables need: files, statistics and worker reports.

    No pipeline and no backfill may be running.
    """
    reports = open_storage(lake.root / WORKER_REPORTS_DIR)
    for entry in reports.list_files():
        reports.remove(entry.name)
    for name in (*ALL_TABLE_NAMES, BACKFILLS.name):
        if lake.table(name) is None:
            continue
        _vacuum(lake, name, 0)
        table = lake.storage.open_table(name)
        table.create_checkpoint()
        logs = open_storage(lake.root / name / DELTA_LOG_DIR)
        for file in logs.list_files():
            match = _LOG_ENTRY.match(file.name)
            # The statistics of a file have the least and the greatest name in it.
            if match is not None and int(match[1]) < table.version():
                logs.remove(file.name)
        open_storage(lake.root / name / f"{DELTA_LOG_DIR}.damaged").remove_all()


def delete_rows_from(lake: Lake, seq: int) -> None:
    """Delete all rows of events from a position on. No pipeline may be running."""
    for table in EVENT_TABLES:
        _delete(lake, table, pc.field("seq") < seq)


def _is_retained(table: Table, cutoff: datetime, events: pa.Array) -> pc.Expression:
    """Return the condition of rows to keep: by receive time or, in `large_facets`, by event."""
    column = next((name for name in ("received_at", "created_at") if name in table.schema.names), None)
    if column is None:
        return ~pc.field("seq").isin(events)
    return (pc.field(column) >= pa.scalar(cutoff)) | pc.field(column).is_null()


def _delete(lake: Lake, table: Table, is_retained: pc.Expression, rewritten: Sequence[DataFile] = ()) -> int:
    """Delete rows, and add files, in one commit; return the number of deleted rows."""
    # Not `DeltaTable.delete` (deltalake 1.6): it writes string views, on which filters of pyarrow fail, and its files
    # are not sorted.
    delta = lake.table(table.name)
    if delta is None:
        return 0
    folder, schema = lake.root / table.name, pa.schema(delta.schema().to_arrow())
    removed: list[ActiveFile] = []
    added = list(rewritten)
    count = 0
    for file in active_files(delta):
        rows = open_storage(folder).dataset([file.name], schema)
        retained, total = rows.count_rows(filter=is_retained), rows.count_rows()
        if retained < total:
            removed.append(file)
            count += total - retained
            if retained:
                added.append(write_sorted(folder, table, rows.to_table(filter=is_retained)))
    if removed or added:
        replace_files(lake, table.name, removed, added, is_data_change=True)
    return count
