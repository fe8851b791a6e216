"""Number of events that wait for a backfill. Does not import pyarrow, which is slow to load."""

from __future__ import annotations

from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import TableNotFoundError

from clew.home import LakeLocation
from clew.lake.storage import open_storage

_COUNT = """select count(*) as events from lineage_events where is_raw_only and not exists (
    select 1 from backfills where seq between first_seq and last_seq)"""
_NULLS = "null_count.is_raw_only"


def count_pending_backfill(root: LakeLocation) -> int:
    """Count the raw-only events that are not backfilled yet."""
    try:
        events, backfills = (open_storage(root).open_table(name) for name in ("lineage_events", "backfills"))
    except TableNotFoundError:
        return 0
    if not _has_raw_events(events):
        return 0
    query = QueryBuilder().register("lineage_events", events).register("backfills", backfills)
    count: int = query.execute(_COUNT).read_all().column("events").to_pylist()[0]
    return count


def _has_raw_events(events: DeltaTable) -> bool:
    """Return whether there are raw-only events, by file statistics only."""
    if "is_raw_only" not in {field.name for field in events.schema().fields}:
        return False
    actions = events.get_add_actions(flatten=True)
    rows, nulls = (list(actions.column(name).to_pylist()) for name in ("num_records", _NULLS))
    return rows != nulls
