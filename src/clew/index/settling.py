"""Steps after a merge, in the same transaction: remove superseded rows and recompute canonical names."""

from __future__ import annotations

import json

from clew.events.nodes import resolve_aliases
from clew.index.changes import ChangeSet
from clew.index.database import Database

# If facets are ordered by arrival, `event_times` is empty and the position alone decides.
_PRECEDENCE = "coalesce((select event_times.event_time from event_times where event_times.seq = {seq}), 0), {seq}"
_DELETE_SUPERSEDED = f"""delete from {{table}}
    where asserted_by = ?1 {{condition}} and ({_PRECEDENCE.format(seq="{table}.seq")})
    < (select {_PRECEDENCE.format(seq="static_lineage.seq")} from static_lineage where asserted_by = ?1)"""  # noqa: S608
_OF_JOB = "job_namespace = ?1 and job_name = ?2 and declared_seq is not null"
_MARK_SUPERSEDED = f"""update reported_job_edges set is_superseded = 1
    where {_OF_JOB} and is_observed = 0 and ({_PRECEDENCE.format(seq="reported_job_edges.declared_seq")})
    < (select {_PRECEDENCE.format(seq="last.declared_seq")} from reported_job_edges as last
        where {_OF_JOB} order by 1 desc, 2 desc limit 1)"""  # noqa: S608

# Most events repeat the symlinks; triggers record a change.
_RESET_SYMLINKS_CHANGED = "delete from meta where key = 'symlinks_changed'"


def finalize_lineage(database: Database, changes: ChangeSet) -> None:
    """Make the index independent of the order of batches; call it within the transaction of a batch."""
    _delete_superseded_lineage(database, changes)
    _mark_superseded_edges(database, changes)
    if changes.symlinks and database.execute(_RESET_SYMLINKS_CHANGED).rowcount:
        _recompute_canonical_names(database)


def _delete_superseded_lineage(database: Database, changes: ChangeSet) -> None:
    """Delete explicit lineage that a job declared before its last declaration."""
    asserters = {(row.asserted_by,) for row in changes.static_lineage}
    asserters |= {(row.asserted_by,) for row in changes.lineage_assertions if row.run_uuid is None}
    asserters |= {(row.asserted_by,) for row in changes.job_dependency_assertions if row.run_uuid is None}
    for table, condition in (("lineage_assertions", "and origin = 'lineage'"), ("job_dependency_assertions", "")):
        database.executemany(_DELETE_SUPERSEDED.format(table=table, condition=condition), asserters)


def _mark_superseded_edges(database: Database, changes: ChangeSet) -> None:
    """Mark inputs and outputs that a job declared only before its last declaration."""
    jobs = {(row.job_namespace, row.job_name) for row in changes.reported_job_edges if row.declared_seq is not None}
    database.executemany(_MARK_SUPERSEDED, jobs)


def _recompute_canonical_names(database: Database) -> None:
    symlinks = database.execute("select namespace, name, identifiers from symlinks order by 1, 2").fetchall()
    pairs = (
        ((namespace, name), tuple(alias)) for namespace, name, aliases in symlinks for alias in json.loads(aliases)
    )
    rows = {(*name, *canonical) for name, canonical in resolve_aliases(pairs).items()}
    existing = set(database.execute("select namespace, name, canonical_namespace, canonical_name from dataset_aliases"))
    database.executemany(
        "delete from dataset_aliases where namespace = ? and name = ?", (row[:2] for row in existing - rows)
    )
    database.executemany("insert into dataset_aliases values (?, ?, ?, ?)", rows - existing)
