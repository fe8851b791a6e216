"""How many events are still without their facets. Without pyarrow, which takes long to load."""

from __future__ import annotations

from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import TableNotFoundError

from clew.home import LakePlace
from clew.lake.storage import storage_at

_COUNT = """select count(*) as events from lineage_events where is_raw_only and not exists (
    select 1 from backfills where seq between first_seq and last_seq)"""
_NULLS = "null_count.is_raw_only"


def unfilled_count(root: LakePlace) -> int:
    """Events that were taken in raw and that no backfill has reached yet."""
    try:
        events, backfills = (storage_at(root).open_table(name) for name in ("lineage_events", "backfills"))
    except TableNotFoundError:
        return 0
    if not _has_raw_events(events):
        return 0
    query = QueryBuilder().register("lineage_events", events).register("backfills", backfills)
    count: int = query.execute(_COUNT).read_all().column("events").to_pylist()[0]
    return count


def _has_raw_events(events: DeltaTable) -> bool:
    """By the statistics of files: few lakes have any, and those that have none are not to be read for it."""
    if "is_raw_only" not in {field.name for field in events.schema().fields}:
        return False
    actions = events.get_add_actions(flatten=True)
    rows, nulls = (list(actions.column(name).to_pylist()) for name in ("num_records", _NULLS))
    return rows != nulls
