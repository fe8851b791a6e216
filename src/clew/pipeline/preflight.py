"""Checks before a run: log, checkpoint, lake and index belong together."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

from clew.data_dir import DataDir, replace_file
from clew.errors import ClewError
from clew.eventlog.segments import list_segments, read_known_end, tail_checksum
from clew.index.backends.sqlite import DamagedIndexError, SqliteBackend
from clew.index.writer import IndexWriter
from clew.lake.lake import Lake
from clew.lake.manifest import read_manifest
from clew.lake.schemas import EVENT_GRAIN_TABLES, EVENT_TABLE_NAMES
from clew.pipeline.checkpoint import Checkpoint, SourceOffset, read_batch_records
from clew.progress import ProgressCallback, no_progress

_LAKE_FILE = "lake.json"
# Exists while a pipeline writes the index.
_UNCLEAN_MARKER = "index.unclean"
_MAX_ALWAYS_CHECKED_BYTES = 64 << 20


@contextmanager
def recover_index(home: DataDir, on_progress: ProgressCallback) -> Iterator[None]:
    """Set a damaged SQLite index aside, so that it is rebuilt.

    Its structure is checked after an unclean stop, and always if that takes less than a second.
    """
    if home.database_url is not None:
        yield
        return
    marker, backend = home.root / _UNCLEAN_MARKER, SqliteBackend(home.index_file)
    size = backend.path.stat().st_size if backend.path.exists() else 0
    must_check = size and (marker.exists() or size <= _MAX_ALWAYS_CHECKED_BYTES)
    damage = (backend.find_damage() if must_check else None) or _find_open_error(backend)
    if damage is not None:
        target = backend.set_aside()
        on_progress(f"The index is damaged ({damage}). It was moved to {target} and is rebuilt from the lake")
    marker.touch()
    yield
    # Kept after an error: the next start checks the index.
    marker.unlink(missing_ok=True)


def request_index_check(home: DataDir) -> None:
    """Make the next pipeline check the structure of the index."""
    (home.root / _UNCLEAN_MARKER).touch()


def _find_open_error(backend: SqliteBackend) -> str | None:
    try:
        if backend.path.exists():
            backend.writer().database.close()
    except DamagedIndexError as error:
        return error.message
    return None


def repair_checkpoint(
    home: DataDir,
    lake: Lake,
    on_progress: ProgressCallback,
    restart_offset: Callable[[int], SourceOffset] = SourceOffset,
) -> None:
    """Repair a damaged checkpoint.

    An interrupted batch is repeated with its range and number, so that no event is lost or stored twice. If that is
    unknown, the log is read again from the last known position: the index must then know all events of the lake.
    `restart_offset` returns the offset at which the source is read again from a position.
    """
    checkpoint = Checkpoint(home.checkpoint)
    damage, plan = checkpoint.find_damage(), checkpoint.read_plan()
    app_id = checkpoint.stored_app_id if plan is None else plan.app_id
    number, position = (-1, 0) if plan is None else (plan.number, plan.end)
    if app_id and lake.last_batch(app_id) > max(number, -1 if damage else checkpoint.last_planned_batch):
        damage = damage or f"{checkpoint.root} is older than the lake"
        plan = None
    elif damage is None:
        reused = None if checkpoint.topic else _reused_position(home, checkpoint)
        if reused is None:
            return
        damage, plan, position = f"the log was cut and continued after position {reused:,}", None, reused
    if plan is None:
        old = checkpoint.restart(restart_offset(position))
        on_progress(f"The checkpoint is not usable: {damage}. The log is read again from {position:,}: {old}")
        return
    old = checkpoint.restore(plan)
    on_progress(f"The checkpoint was repaired: {damage}. Ingestion continues at {plan.start:,}. The old files: {old}")


def _reused_position(home: DataDir, checkpoint: Checkpoint) -> int | None:
    """Return the last position up to which the log is as it was ingested; None if all of it is."""
    app_id, committed = checkpoint.stored_app_id, checkpoint.committed_offset
    batches = [batch for batch in read_batch_records(checkpoint.root) if batch.app_id == app_id]
    log_segments = list_segments(home.log)
    start, end = (log_segments[0].base, log_segments[-1].end) if log_segments else (0, 0)
    if not log_segments:
        return None
    # Its writer continues at the committed offset at least, unless it did not know the checkpoint.
    is_intact = end >= committed
    for batch in reversed(batches):
        if batch.log_tail is None or batch.end_offset > committed:
            continue
        is_dropped = batch.end_offset <= start
        is_equal = batch.end_offset <= end and tail_checksum(home.log, batch.end_offset) in (None, batch.log_tail)
        if is_dropped or is_equal:
            return None if is_intact else batch.end_offset
        is_intact = False
    return None if is_intact else 0


def check_consistency(home: DataDir, lake: Lake, index: IndexWriter) -> None:
    """Raise if log, checkpoint, lake and index do not belong together; bind a new checkpoint to the lake."""
    checkpoint = Checkpoint(home.checkpoint)
    _check_lake_id(checkpoint, lake)
    for table in EVENT_TABLE_NAMES:
        message = find_missing_batch(checkpoint, lake, table)
        if message is not None:
            hint = "Nothing was changed. Run `clew doctor --repair`: it writes the rows again."
            raise ClewError(message, hint=hint)
    check_log_offsets(home)
    _check_event_counts(index, lake)


def _check_lake_id(checkpoint: Checkpoint, lake: Lake) -> None:
    manifest = read_manifest(lake.root)
    lake_id = "" if manifest is None else manifest.id
    stored = _read_lake_file(checkpoint)
    if stored is None:
        checkpoint.root.mkdir(parents=True, exist_ok=True)
        replace_file(checkpoint.root / _LAKE_FILE, json.dumps({"id": lake_id, "path": str(lake.root)}).encode())
    elif stored["id"] != lake_id:
        message = (
            f"The checkpoint {checkpoint.root} belongs to the lake {stored['id']}, last seen at {stored['path']};"
            f" {lake.root} is the lake {lake_id}."
        )
        hint = (
            "Pass its lake with --lake PATH. Or move checkpoint and index away: the log is then read from its start"
            " into this lake; events that it contains already are skipped."
        )
        raise ClewError(message, hint=hint)


def read_checkpoint_lake_id(checkpoint: Checkpoint) -> str | None:
    """Return the id of the lake of a checkpoint; None if it is unknown."""
    stored = _read_lake_file(checkpoint)
    return None if stored is None else stored["id"]


def find_missing_batch(checkpoint: Checkpoint, lake: Lake, table: str) -> str | None:
    """Return that a table lacks the last batch that wrote rows to it, which happens if its last commit was deleted."""
    app_id = checkpoint.stored_app_id
    batches = [batch for batch in read_batch_records(checkpoint.root) if batch.app_id == app_id]
    last = max((batch.number for batch in batches if batch.rows.get(table)), default=-1)
    is_missing = last >= 0 and lake.last_batch(app_id, [table]) < last
    return f"The table {lake.root / table} lacks batch {last:,}: its last commit is missing." if is_missing else None


def _read_lake_file(checkpoint: Checkpoint) -> dict[str, str] | None:
    try:
        log_segments = json.loads((checkpoint.root / _LAKE_FILE).read_text())
        return {"id": str(log_segments["id"]), "path": str(log_segments["path"])}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def check_log_offsets(home: DataDir, on_progress: ProgressCallback = no_progress) -> None:
    """Report events that are missing in the log; raise if it begins after the committed offset.

    Call before anything is appended to the log.
    """
    folder, checkpoint = home.log, Checkpoint(home.checkpoint)
    if checkpoint.topic:
        # Its positions are not those of the log.
        return
    offset, log_segments = checkpoint.committed_offset, list_segments(folder)
    start, log_end = (log_segments[0].base, log_segments[-1].end) if log_segments else (0, 0)
    # If the log was cut, its writer continues at the known end.
    end = max(log_end, read_known_end(folder), offset)
    if 0 < offset < start:
        hint = (
            f"Restore the log from a backup. Or move {checkpoint.root} away: the log is then read from its start, and"
            " events that the lake contains already are skipped."
        )
        message = f"The log {folder} begins at {start:,}; events from {offset:,} on were not ingested and are lost."
        raise ClewError(message, hint=hint)
    if log_end < end:
        missing = end - max(log_end, offset)
        loss = f"{missing:,} bytes of events that were not ingested are lost" if missing else "All were ingested"
        on_progress(f"The log {folder} was cut at {log_end:,}: its events up to {end:,} are missing. {loss}")
    for segment, following in pairwise(log_segments):
        if max(segment.end, offset) < following.base:
            missing = following.base - max(segment.end, offset)
            on_progress(
                f"The log {folder} has no events from {segment.end:,} to {following.base:,}."
                f" {missing:,} bytes of events that were not ingested are lost"
            )


def _check_event_counts(index: IndexWriter, lake: Lake) -> None:
    """Raise if the index has more events than the lake, which is written first: new events would be skipped."""
    rows = lake.row_counts()
    stored, indexed = sum(rows.get(name, 0) for name in EVENT_GRAIN_TABLES), index.event_count
    if indexed > stored:
        message = f"The index {index.location} has {indexed:,} events, but the lake {lake.root} has {stored:,}."
        hint = (
            "They do not belong together. Move the index away: it is rebuilt from the lake. If the lake lacks events,"
            " move the checkpoint away as well: they are ingested again from the log."
        )
        raise ClewError(message, hint=hint)
