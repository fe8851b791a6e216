"""What a merge leaves to be settled: rows that other rows of the same or another batch make void, and the nodes."""

from __future__ import annotations

import json

from clew.events.nodes import nodes_of
from clew.index.changes import Changes
from clew.index.database import Database

# Where facets count by arrival there are no moments, and the position alone decides.
_TURN = "coalesce((select at from moments where position = {seq}), 0), {seq}"
_NO_LONGER_DECLARED = f"""delete from {{table}} where author = ?1 {{also}} and ({_TURN.format(seq="{table}.seq")})
    < (select {_TURN.format(seq="lineage_declarations.seq")} from lineage_declarations where author = ?1)"""  # noqa: S608
_OF_JOB = "job_namespace = ?1 and job_name = ?2 and declared_seq is not null"
_NO_LONGER_READ_OR_WRITTEN = f"""update said_job_edges set is_over = 1
    where {_OF_JOB} and is_lasting = 0 and ({_TURN.format(seq="said_job_edges.declared_seq")})
    < (select {_TURN.format(seq="last.declared_seq")} from said_job_edges as last
        where {_OF_JOB} order by 1 desc, 2 desc limit 1)"""  # noqa: S608

# A producer sends the same symlinks with every event; triggers note when they are others.
_WERE_CHANGED = "delete from meta where key = 'symlinks_changed'"


def settle_lineage(database: Database, changes: Changes) -> None:
    """Bring the index to what it says whatever the order in which batches came, within a batch's transaction."""
    _forget_declared(database, changes)
    _end_edges(database, changes)
    if changes.symlinks and database.execute(_WERE_CHANGED).rowcount:
        _find_nodes(database)


def _forget_declared(database: Database, changes: Changes) -> None:
    """Explicit lineage that a job declared before its last declaration."""
    authors = {(row.author,) for row in changes.lineage_declarations}
    authors |= {(row.author,) for row in changes.statements if row.run_uuid is None}
    authors |= {(row.author,) for row in changes.links if row.run_uuid is None}
    for table, also in (("statements", "and origin = 'lineage'"), ("links", "")):
        database.executemany(_NO_LONGER_DECLARED.format(table=table, also=also), authors)


def _end_edges(database: Database, changes: Changes) -> None:
    """What jobs declared to read and write before their last declaration."""
    jobs = {(row.job_namespace, row.job_name) for row in changes.said_job_edges if row.declared_seq is not None}
    database.executemany(_NO_LONGER_READ_OR_WRITTEN, jobs)


def _find_nodes(database: Database) -> None:
    known = database.execute("select namespace, name, identifiers from symlinks order by 1, 2").fetchall()
    pairs = (((namespace, name), tuple(other)) for namespace, name, others in known for other in json.loads(others))
    nodes = {(*name, *node) for name, node in nodes_of(pairs).items()}
    there = set(database.execute("select namespace, name, node_namespace, node_name from nodes"))
    database.executemany("delete from nodes where namespace = ? and name = ?", ((row[:2]) for row in there - nodes))
    database.executemany("insert into nodes values (?, ?, ?, ?)", nodes - there)
