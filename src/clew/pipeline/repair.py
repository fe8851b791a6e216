"""Repair of a lake: manifest, tables and Delta logs are written again from the log and from other tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError
from msgspec import Struct

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.eventlog.segments import end_position, split_ranges
from clew.index.queries.reader import IndexReader
from clew.lake.backfill_state import EVENT_COLUMNS, decode_raw_events, read_backfilled_ranges
from clew.lake.data_files import DataFile, FileWriter
from clew.lake.event_rows import EventTableBuilder
from clew.lake.file_check import CheckLevel
from clew.lake.lake import Lake, active_files, replace_files
from clew.lake.manifest import (
    TableDamage,
    find_damage,
    find_manifest_damage,
    read_manifest,
    require_lake,
    restore_manifest,
)
from clew.lake.refresh_state import read_facet_order, reset_refresh_state
from clew.lake.scan import ValueRange, iter_by_seq, scan_range
from clew.lake.schemas import (
    BACKFILLS,
    EVENT_GRAIN_TABLES,
    EVENT_TABLE_NAMES,
    LARGE_COLUMNS,
    LINEAGE_EVENTS,
    SOURCE_TABLE_NAMES,
    SOURCE_TABLES,
    Table,
)
from clew.lake.storage import DELTA_LOG_DIR, open_parquet, open_storage, table_names
from clew.pipeline.checkpoint import Checkpoint, read_ranges
from clew.pipeline.locks import BACKFILL_LOCK, PIPELINE_LOCK, acquire_lock
from clew.pipeline.preflight import find_missing_batch, read_checkpoint_lake_id
from clew.pipeline.workers import BYTES_PER_BATCH, TaskEvent, add_rows, read_log_events
from clew.progress import ProgressCallback, no_progress

# An event may be 10 MB.
_ROWS_PER_BATCH = 64
_BYTES_PER_RANGE = 16 << 20
_MAX_POSITION = 2**63 - 2


class TableRepair(Struct, frozen=True):
    """Repair of a table: its damage, the rows that were written again, and what is lost.

    A derived table is deleted: the next pipeline writes it.
    """

    table: str
    damage: str
    rows: int = 0
    lost: str | None = None
    is_derived: bool = False


def repair_manifest(home: DataDir) -> str | None:
    """Write a missing or damaged manifest of the lake again, with the id that the checkpoint has; return its damage."""
    damage = find_lake_damage(home)
    if damage is not None:
        with acquire_lock(home.lake / PIPELINE_LOCK):
            order = read_facet_order(home.lake)
            restore_manifest(home.lake, SOURCE_TABLE_NAMES, read_checkpoint_lake_id(Checkpoint(home.checkpoint)), order)
    return damage


def find_lake_damage(home: DataDir) -> str | None:
    """Return the damage of the manifest, which may be another id than that in the checkpoint of the lake's batches."""
    damage = find_manifest_damage(home.lake, SOURCE_TABLE_NAMES)
    manifest = None if damage is not None else read_manifest(home.lake)
    if manifest is None:
        return damage
    checkpoint = Checkpoint(home.checkpoint)
    lake_id = read_checkpoint_lake_id(checkpoint)
    if lake_id in {None, manifest.id} or not checkpoint.stored_app_id:
        return None
    has_batches = _last_readable_batch(Lake(home.lake), checkpoint.stored_app_id) >= 0
    return f"The manifest of the lake {home.lake} has another id than the checkpoint." if has_batches else None


def find_table_damage(home: DataDir, name: str, level: CheckLevel) -> TableDamage | None:
    """Find the damage of a table: files that are missing or damaged, or a commit that is missing."""
    damage = find_damage(home.lake / name, level)
    if damage is None and name in EVENT_TABLE_NAMES:
        checkpoint, lake = Checkpoint(home.checkpoint), Lake(home.lake)
        message = find_missing_batch(checkpoint, lake, name) or _find_uncommitted_file(checkpoint, lake, name)
        return None if message is None else TableDamage(message)
    return damage


def _find_uncommitted_file(checkpoint: Checkpoint, lake: Lake, name: str) -> str | None:
    """Return that a table lacks a batch that other tables have, and has a file that is newer than its last commit."""
    app_id = checkpoint.stored_app_id
    last = _last_readable_batch(lake, app_id) if app_id else -1
    # A batch that is not committed in the checkpoint is repeated.
    if last < 0 or last > checkpoint.last_committed_batch or lake.last_batch(app_id, [name]) >= last:
        return None
    folder = lake.root / name
    committed_at = max((file.written_at for file in open_storage(folder / DELTA_LOG_DIR).list_files()), default=0.0)
    committed = {path.rpartition("/")[2] for path in lake.files(name)}
    is_missing = any(
        file.written_at > committed_at and file.name.endswith(".parquet") and file.name not in committed
        for file in open_storage(folder).list_files()
    )
    return (
        f"The table {folder} has files that are newer than its last commit: a commit is missing."
        if is_missing
        else None
    )


def _last_readable_batch(lake: Lake, app_id: str) -> int:
    """Return the number of the last batch of the tables that are not damaged."""
    last = -1
    for name in EVENT_TABLE_NAMES:
        with suppress(DeltaError, OSError):
            last = max(last, lake.last_batch(app_id, [name]))
    return last


def repair_lake(home: DataDir, on_progress: ProgressCallback = no_progress) -> list[TableRepair]:
    """Repair damaged tables without Spark; the next pipeline rebuilds the index and the derived tables.

    Rows of events are re-created from the log, rows of facets from the events.
    """
    require_lake(home.lake)
    root = home.lake
    with acquire_lock(root / PIPELINE_LOCK) as check_lock, acquire_lock(root / BACKFILL_LOCK, "backfill"):
        names = dict.fromkeys((*EVENT_GRAIN_TABLES, *SOURCE_TABLE_NAMES, *table_names(root)))
        found = {name: find_table_damage(home, name, CheckLevel.CONTENT) for name in names}
        damages = {name: damage for name, damage in found.items() if damage is not None}
        if not damages:
            return []
        lake, repairs = Lake(root, check_lock), []
        # First, so that the next pipeline completes an interrupted repair.
        reset_refresh_state(lake)
        Checkpoint(home.checkpoint).request_reindex()
        for name, damage in damages.items():
            on_progress(f"Repairing the table {name}")
            table = next((table for table in SOURCE_TABLES if table.name == name), None)
            if table is None:
                open_storage(root / name).remove_all()
                repairs.append(TableRepair(name, damage.message, is_derived=True))
            else:
                repairs.append(_TableRepairer(home, lake, table, damage).run())
        return repairs


class _TableRepairer:
    """Writes missing rows of a table again, and replaces its Delta log if that is damaged."""

    def __init__(self, home: DataDir, lake: Lake, table: Table, damage: TableDamage) -> None:
        self._home = home
        self._lake = lake
        self._table = table
        self._damage = damage
        self._key = next(name for name in ("uuid", "event_id", "number") if name in table.schema.names)
        self._writer = FileWriter(str(lake.root), LARGE_COLUMNS)
        self._files: list[DataFile] = []

    def run(self) -> TableRepair:
        """Repair the table."""
        lost = self._replace_files() if self._damage.files else self._replace_log()
        return TableRepair(self._table.name, self._damage.message, sum(file.rows for file in self._files), lost)

    def _replace_files(self) -> str | None:
        """Replace the damaged files by files with the same rows; return the lost rows."""
        delta = self._lake.require_table(self._table.name)
        damaged = [file for file in active_files(delta) if unquote(file.name) in self._damage.files]
        actions = pa.table(delta.get_add_actions(flatten=True)).to_pylist()
        statistics = [action for action in actions if unquote(action["path"]) in self._damage.files]
        low = min(action.get("min.seq") or 0 for action in statistics)
        highest = [action.get("max.seq") for action in statistics]
        high = max(_MAX_POSITION if position is None else position for position in highest)
        kept = [
            path for path in self._lake.files(self._table.name) if path.rpartition("/")[2] not in self._damage.files
        ]
        self._write_missing({key for path in kept for key in self._keys(_read_file(path, [self._key]))}, low, high)
        replace_files(self._lake, self._table.name, damaged, self._files, is_data_change=True)
        expected, found = (
            sum(action["num_records"] or 0 for action in statistics),
            sum(file.rows for file in self._files),
        )
        return f"{expected - found:,} of {expected:,} rows" if found < expected else None

    def _replace_log(self) -> str | None:
        """Create the table again, from its readable files and what its Delta log still says; return the lost events."""
        checkpoint = Checkpoint(self._home.checkpoint)
        # An uncommitted batch is repeated: its rows are left out.
        end = checkpoint.committed_offset or _MAX_POSITION
        old = self._lake.recreate_table(self._table)
        known: set[Any] = set()
        for path in old.files:
            rows = _read_file(path)
            if rows is not None:
                is_committed = pc.field("seq") < end if "seq" in rows.schema.names else pc.scalar(value=True)
                self._add_new(rows.filter(is_committed), known)
        self._write_missing(known, 0, end - 1)
        transactions = old.transactions
        if checkpoint.stored_app_id and checkpoint.last_committed_batch >= 0:
            transactions[checkpoint.stored_app_id] = checkpoint.last_committed_batch
        self._lake.append_recovered(self._table, self._files, transactions)
        return self._find_lost_events() if self._table.name in EVENT_GRAIN_TABLES else None

    def _find_lost_events(self) -> str | None:
        """Compare the number of events with that of the index."""
        try:
            with IndexReader(self._home.index) as index:
                indexed = index.count("select count(*) from events") + index.rejected_count()
        except (ClewError, sqlite3.Error):
            return None
        names = [name for name in EVENT_GRAIN_TABLES if find_damage(self._lake.root / name) is None]
        if len(names) < len(EVENT_GRAIN_TABLES):
            return None
        stored = sum(self._lake.require_table(name).count() for name in names)
        return f"{indexed - stored:,} events" if stored < indexed else None

    def _keys(self, rows: pa.Table | None) -> list[Any]:
        return [] if rows is None else rows[self._key].to_pylist()

    def _add_new(self, rows: pa.Table, known: set[Any]) -> None:
        """Write the rows whose key is not known yet."""
        is_new = []
        for key in self._keys(rows):
            is_new.append(key not in known)
            known.add(key)
        schema = self._table.schema
        columns = [rows[name].cast(schema.field(name).type) for name in rows.schema.names if name in schema.names]
        present = pa.schema([schema.field(name) for name in rows.schema.names if name in schema.names])
        for batch in pa.table(columns, schema=present).filter(pa.array(is_new, pa.bool_())).to_batches():
            self._files += self._writer.add({self._table.name: batch})

    def _write_missing(self, known: set[Any], low: int, high: int) -> None:
        """Write the rows of events between two positions that the table lacks."""
        builder, buffered_bytes = EventTableBuilder(), 0
        for item in self._read_events(low, high):
            add_rows(builder, item)
            buffered_bytes += len(item.origin.body or b"")
            if buffered_bytes >= BYTES_PER_BATCH:
                self._drain(builder, known)
                buffered_bytes = 0
        self._drain(builder, known)
        self._files += self._writer.flush()

    def _drain(self, builder: EventTableBuilder, known: set[Any]) -> None:
        batch = builder.drain().get(self._table.name)
        if batch is not None:
            self._add_new(pa.Table.from_batches([batch]), known)

    def _read_events(self, low: int, high: int) -> Iterator[TaskEvent]:
        if self._table.name in EVENT_GRAIN_TABLES:
            parts = split_ranges(self._home.log, low, min(high + 1, end_position(self._home.log)), _BYTES_PER_RANGE)
            ranges = pa.RecordBatch.from_pylist([asdict(part) for part in parts])
            return read_log_events(iter([ranges]), raw_only_ranges=read_ranges(self._home.checkpoint))
        return iter(()) if self._table.name == BACKFILLS.name else self._read_events_with_facets(low, high)

    def _read_events_with_facets(self, low: int, high: int) -> Iterator[TaskEvent]:
        backfilled = read_backfilled_ranges(self._lake)
        value_range = ValueRange("seq", low, high)
        scanner = scan_range(self._lake, LINEAGE_EVENTS, value_range).scanner(
            columns=[*EVENT_COLUMNS, "is_raw_only"], filter=value_range.filter(), batch_size=_ROWS_PER_BATCH
        )
        for batch in scanner.to_batches():
            for row in iter_by_seq(pa.Table.from_batches([batch])):
                if not row["is_raw_only"] or backfilled.covers(row["seq"], row["seq"]):
                    yield from (TaskEvent(event, received) for event, received in decode_raw_events([row]))


def _read_file(path: str, columns: list[str] | None = None) -> pa.Table | None:
    """Read a data file; None if it is damaged."""
    try:
        return pq.ParquetFile(open_parquet(path), page_checksum_verification=True).read(columns)
    except (OSError, pa.ArrowException):
        return None
