"""Table sizes, batches, run events, rejected events and pending backfills, without pyarrow, which is slow to load."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import msgspec
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import TableNotFoundError
from msgspec import Struct, field

from clew.data_dir import LakeLocation
from clew.events.openlineage import to_epoch_micros
from clew.lake.manifest import COMMIT_FILE
from clew.lake.storage import DELTA_LOG_DIR, open_storage, table_names

# Maintenance commits lie between those of batches.
_COMMITS_PER_BATCH = 4


class TableSize(Struct, frozen=True):
    """Rows, files and bytes of the newest version of a table."""

    name: str
    rows: int
    files: int
    bytes: int


class CommittedBatch(Struct, frozen=True):
    """A batch, when its last table was committed, and the rows that it added to each table.

    Duration and throughput are known while the batch is in the pipeline's batch history.
    """

    app_id: str
    number: int
    committed_at_ms: int
    rows: dict[str, int]
    seconds: float | None = None
    events_per_second: float | None = None


class _Transaction(Struct, rename="camel"):
    app_id: str
    version: int


class _Add(Struct):
    stats: str | None = None


class _CommitInfo(Struct):
    timestamp: int = 0


class _Action(Struct):
    txn: _Transaction | None = None
    add: _Add | None = None
    commit_info: _CommitInfo | None = field(default=None, name="commitInfo")


class _Statistics(Struct, rename="camel"):
    num_records: int = 0


_decode_action = msgspec.json.Decoder(_Action).decode
_decode_statistics = msgspec.json.Decoder(_Statistics).decode


def read_table_sizes(root: LakeLocation) -> list[TableSize]:
    """Read the size of each table below `root`, ordered by name."""
    return list(open_storage(root).map_concurrently(partial(_read_size, root), table_names(root)))


def recent_batches(root: LakeLocation, names: tuple[str, ...], count: int) -> list[CommittedBatch]:
    """List the batches last committed to these tables, newest first."""
    by_id: dict[tuple[str, int], CommittedBatch] = {}
    for name in names:
        for commit in _last_commits(root / name / DELTA_LOG_DIR, count * _COMMITS_PER_BATCH):
            for batch in _batches(commit, name):
                existing = by_id.get((batch.app_id, batch.number), batch)
                at_ms = max(existing.committed_at_ms, batch.committed_at_ms)
                rows = {**existing.rows, **batch.rows}
                by_id[batch.app_id, batch.number] = CommittedBatch(batch.app_id, batch.number, at_ms, rows)
    return sorted(by_id.values(), key=lambda batch: (batch.committed_at_ms, batch.number), reverse=True)[:count]


def _read_size(root: LakeLocation, name: str) -> TableSize:
    actions = open_storage(root).open_table(name).get_add_actions(flatten=True)
    rows, sizes = (list(actions.column(name).to_pylist()) for name in ("num_records", "size_bytes"))
    return TableSize(name, sum(rows), len(sizes), sum(sizes))


def _last_commits(folder: LakeLocation, count: int) -> Iterator[bytes]:
    storage = open_storage(folder)
    names = sorted(entry.name for entry in storage.list_files() if COMMIT_FILE.fullmatch(entry.name))
    for content in storage.map_concurrently(storage.read, names[-count:]):
        # Maintenance may have deleted it concurrently.
        if content is not None:
            yield content


def _batches(commit: bytes, table: str) -> Iterator[CommittedBatch]:
    """Return the batches of a commit: one, or none if it is a maintenance commit."""
    actions = [_decode_action(line) for line in commit.splitlines()]
    rows = sum(_decode_statistics(action.add.stats or "{}").num_records for action in actions if action.add is not None)
    at_ms = max((action.commit_info.timestamp for action in actions if action.commit_info is not None), default=0)
    for action in actions:
        if action.txn is not None:
            yield CommittedBatch(action.txn.app_id, action.txn.version, at_ms, {table: rows})


_MAX_REJECTIONS = 5
_NEWEST = "select source, reason, detail from rejected order by seq desc limit {}"


class Rejection(Struct, frozen=True):
    """Source and reason of a rejected event."""

    source: str | None
    reason: str | None
    detail: str | None


def recent_rejections(root: LakeLocation, count: int = _MAX_REJECTIONS) -> list[Rejection]:
    """List the newest rejected events, at most five."""
    if not count:
        return []
    query = QueryBuilder().register("rejected", open_storage(root).open_table("rejected_events"))
    rows = query.execute(_NEWEST.format(min(count, _MAX_REJECTIONS))).read_all()
    return [Rejection(**row) for row in rows.to_struct_array().to_pylist()]


def count_rejections(root: LakeLocation, reason: str) -> int:
    """Count the events that were rejected for a reason."""
    query = QueryBuilder().register("rejected", open_storage(root).open_table("rejected_events"))
    rows = query.execute(f"select count(*) as events from rejected where reason = '{reason}'").read_all()  # noqa: S608
    count: int = rows.column("events").to_pylist()[0]
    return count


class RunEvent(Struct, frozen=True):
    """Position, time in epoch microseconds, and type of a run event."""

    seq: int
    event_time: int
    event_type: str


def list_run_events(root: LakeLocation, namespaces: Sequence[str]) -> list[RunEvent]:
    """Read the run events of jobs in namespaces with these prefixes."""
    try:
        table = open_storage(root).open_table("lineage_events")
    except TableNotFoundError:
        return []
    query = f"""select seq, event_time, upper(coalesce(event_type, '')) as event_type from events
    where run_uuid is not null and ({prefix_condition("job_namespace", namespaces)})"""  # noqa: S608
    rows = QueryBuilder().register("events", table).execute(query).read_all().to_struct_array().to_pylist()
    return [RunEvent(row["seq"], to_epoch_micros(row["event_time"]), row["event_type"]) for row in rows]


def prefix_condition(column: str, prefixes: Iterable[str]) -> str:
    """Return the SQL condition that a column begins with one of the prefixes."""
    return " or ".join(f"starts_with({column}, {quote_literal(prefix)})" for prefix in prefixes) or "false"


def quote_literal(text: str) -> str:
    """Return a string literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


_COUNT = """select count(*) as events from lineage_events where is_raw_only and not exists (
    select 1 from backfills where seq between first_seq and last_seq)"""
_NULLS = "null_count.is_raw_only"


def count_pending_backfill(root: LakeLocation) -> int:
    """Count the raw-only events that are not backfilled yet."""
    try:
        events, backfills = (open_storage(root).open_table(name) for name in ("lineage_events", "backfills"))
    except TableNotFoundError:
        return 0
    if not _is_any_raw_only(events):
        return 0
    query = QueryBuilder().register("lineage_events", events).register("backfills", backfills)
    count: int = query.execute(_COUNT).read_all().column("events").to_pylist()[0]
    return count


def has_raw_events(root: LakeLocation) -> bool:
    """Return whether there are raw-only events, backfilled or not, by file statistics only."""
    try:
        return _is_any_raw_only(open_storage(root).open_table("lineage_events"))
    except TableNotFoundError:
        return False


def _is_any_raw_only(events: DeltaTable) -> bool:
    if "is_raw_only" not in {field.name for field in events.schema().fields}:
        return False
    actions = events.get_add_actions(flatten=True)
    rows, nulls = (list(actions.column(name).to_pylist()) for name in ("num_records", _NULLS))
    return rows != nulls
