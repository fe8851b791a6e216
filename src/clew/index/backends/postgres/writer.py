"""PostgreSQL writer: rows are copied to a staging table and merged by one statement per table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any

import psycopg
from msgspec.structs import astuple

from clew.errors import ClewError
from clew.index.backends.postgres.connection import PostgresDatabase, database_error_message, sanitize_changes
from clew.index.backends.postgres.schema import create_missing_tables, hold_lock
from clew.index.changes import ChangeSet, FacetsRow
from clew.index.merge_rules import MergeSpec

_CREATE_STAGING = """create temporary table if not exists staging_{table} on commit delete rows
as select *, 0 as merge_round from {table} with no data"""
_TYPES = """select attname, format_type(atttypid, null) from pg_attribute
where attrelid = to_regclass($1) and attnum > 0 and not attisdropped"""
_EXISTING_FACETS = """select kind, entity_key, body from facets
join unnest($1::text[], $2::text[]) as incoming (kind, entity_key) using (kind, entity_key)"""
_FACETS = MergeSpec(("kind", "entity_key"), {("last_seq",): "maximum", ("body",): "replaced"})
_RETRY_HINT = "The batch was rolled back. Fix the cause and run it again: it continues where it stopped."


class PostgresWriter:
    """Write through temporary staging tables."""

    def __init__(self, database: PostgresDatabase) -> None:
        self.database = database
        # Column types of the tables that have a staging table.
        self._types: dict[str, dict[str, str]] = {}
        self._session = database.session
        self._used_staging: set[str] = set()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        # Reconnects if the connection was lost.
        self.database.execute("select 1")
        if self._session != self.database.session:
            self._reset_staging()
        try:
            with self.database.connection.transaction():
                hold_lock(self.database)
                yield
        except BaseException as error:
            self._reset_staging()
            if isinstance(error, psycopg.Error) and not isinstance(error, psycopg.IntegrityError):
                raise ClewError(
                    f"Cannot write the index: {database_error_message(error)}.", hint=_RETRY_HINT
                ) from error
            raise
        self._used_staging.clear()

    def sanitized(self, changes: ChangeSet) -> ChangeSet:
        """Return the changes without values that PostgreSQL cannot store."""
        return sanitize_changes(changes)

    def merge(self, table: str, spec: MergeSpec, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            rounds = _merge_rounds(spec, names, rows)
            self._copy_to_staging(table, names, rows, rounds)
            for number in range(max(rounds) + 1):
                self.database.script(spec.upsert(table, names, f"staging_{table} where merge_round = {number}"))

    def upsert_facets(self, rows: Sequence[FacetsRow], merge: Callable[[bytes, bytes], bytes]) -> None:
        incoming: dict[tuple[str, str], FacetsRow] = {}
        for row in rows:
            other = incoming.setdefault((row.kind, row.entity_key), row)
            if other is not row:
                other.last_seq = max(other.last_seq, row.last_seq)
                other.body = merge(other.body, row.body)
        kinds, keys = [kind for kind, _ in incoming], [key for _, key in incoming]
        for kind, key, body in self.database.execute_tuples(_EXISTING_FACETS, (kinds, keys)):
            row = incoming[kind, key]
            row.body = merge(body, row.body)
        self.merge("facets", _FACETS, FacetsRow.__struct_fields__, [astuple(row) for row in incoming.values()])

    def create_indexes(self) -> None:
        create_missing_tables(self.database)

    def release_memory(self) -> None:
        """Do nothing: the caches are in the server."""

    def _copy_to_staging(
        self, table: str, names: Sequence[str], rows: Sequence[Sequence[Any]], rounds: Sequence[int]
    ) -> None:
        if table not in self._types:
            self.database.script(_CREATE_STAGING.format(table=table))
            self._types[table] = dict(self.database.execute_tuples(_TYPES, (f"staging_{table}",)))
        elif table in self._used_staging:
            self.database.script(f"truncate staging_{table}")
        self._used_staging.add(table)
        columns = [*names, "merge_round"]
        column_list = ", ".join(f'"{name}"' for name in columns)
        statement = f"copy staging_{table} ({column_list}) from stdin (format binary)"
        with self.database.connection.cursor().copy(statement) as copy:
            copy.set_types([self._types[table][name] for name in columns])
            for row, merge_round in zip(rows, rounds, strict=True):
                copy.write_row((*row, merge_round))

    def _reset_staging(self) -> None:
        """Forget the staging tables, which are lost after a rollback or a reconnect."""
        self._session = self.database.session
        self._types.clear()
        self._used_staging.clear()


def _merge_rounds(spec: MergeSpec, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[int]:
    """Return the position of each row among those of its key: one statement can merge only one row per key."""
    keys = list(map(itemgetter(*map(names.index, spec.key)), rows))
    if not spec.groups or len(set(keys)) == len(keys):
        return [0] * len(rows)
    rounds: list[int] = []
    seen: defaultdict[Any, int] = defaultdict(int)
    for key in keys:
        rounds.append(seen[key])
        seen[key] += 1
    return rounds
