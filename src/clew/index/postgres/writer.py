"""Writing the index in PostgreSQL: rows come by COPY and are merged by one statement for each table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any

import psycopg
from msgspec.structs import astuple

from clew.errors import ClewError
from clew.index.changes import Changes, FacetsRow
from clew.index.merging import Merge, greatest
from clew.index.postgres.connection import PostgresDatabase, sentence_of
from clew.index.postgres.fitting import fitted
from clew.index.postgres.tables import complete_tables, hold_lock

_WAITING = """create temporary table if not exists waiting_{table} on commit delete rows
as select *, 0 as turn from {table} with no data"""
_TYPES = """select attname, format_type(atttypid, null) from pg_attribute
where attrelid = to_regclass($1) and attnum > 0 and not attisdropped"""
_KNOWN_FACETS = """select kind, entity, body from facets
join unnest($1::text[], $2::text[]) as said (kind, entity) using (kind, entity)"""
_FACETS = Merge(("kind", "entity"), {"last_seq": greatest, "body": lambda column: f"excluded.{column}"})
_AGAIN = "Nothing of this batch is in it. Mend the cause and run it again: it goes on where it stopped."


class PostgresWriter:
    """A connection that writes. Rows wait in temporary tables until they are merged."""

    def __init__(self, database: PostgresDatabase) -> None:
        self.database = database
        # The types of the columns of tables for which there is one that rows wait in.
        self._types: dict[str, dict[str, str]] = {}
        self._session = database.session
        self._are_full: set[str] = set()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written within, or nothing; whoever else writes waits."""
        # Makes the connection anew if it was lost meanwhile.
        self.database.execute("select 1")
        if self._session != self.database.session:
            self._forget()
        try:
            with self.database.connection.transaction():
                hold_lock(self.database)
                yield
        except BaseException as fault:
            self._forget()
            if isinstance(fault, psycopg.Error) and not isinstance(fault, psycopg.IntegrityError):
                raise ClewError(f"The index cannot be written: {sentence_of(fault)}.", hint=_AGAIN) from fault
            raise
        self._are_full.clear()

    def fitted(self, changes: Changes) -> Changes:
        """The changes with nothing in them that the database cannot keep."""
        return fitted(changes)

    def merge(self, table: str, merge: Merge, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Merge rows of a batch into a table, their values in the order of `names`; several may be of one key."""
        if rows:
            turns = _turns(merge, names, rows)
            self._bring(table, names, rows, turns)
            for turn in range(max(turns) + 1):
                self.database.script(merge.upsert(table, names, f"waiting_{table} where turn = {turn}"))

    def put_facets(self, rows: Sequence[FacetsRow], merged: Callable[[bytes, bytes], bytes]) -> None:
        """Put bodies of facets; one that is there is merged with what is said now."""
        said: dict[tuple[str, str], FacetsRow] = {}
        for row in rows:
            other = said.setdefault((row.kind, row.entity), row)
            if other is not row:
                other.last_seq = max(other.last_seq, row.last_seq)
                other.body = merged(other.body, row.body)
        kinds, entities = [kind for kind, _ in said], [entity for _, entity in said]
        for kind, entity, body in self.database.plain(_KNOWN_FACETS, (kinds, entities)):
            row = said[kind, entity]
            row.body = merged(body, row.body)
        self.merge("facets", _FACETS, FacetsRow.__struct_fields__, [astuple(row) for row in said.values()])

    def complete(self) -> None:
        """Make what a builder has left out."""
        complete_tables(self.database)

    def let_go(self) -> None:
        """Nothing to do: the memory is the server's."""

    def _bring(self, table: str, names: Sequence[str], rows: Sequence[Sequence[Any]], turns: Sequence[int]) -> None:
        if table not in self._types:
            self.database.script(_WAITING.format(table=table))
            self._types[table] = dict(self.database.plain(_TYPES, (f"waiting_{table}",)))
        elif table in self._are_full:
            self.database.script(f"truncate waiting_{table}")
        self._are_full.add(table)
        columns = [*names, "turn"]
        listed = ", ".join(f'"{name}"' for name in columns)
        statement = f"copy waiting_{table} ({listed}) from stdin (format binary)"
        with self.database.connection.cursor().copy(statement) as copy:
            copy.set_types([self._types[table][name] for name in columns])
            for row, turn in zip(rows, turns, strict=True):
                copy.write_row((*row, turn))

    def _forget(self) -> None:
        """What was made in a transaction that failed, or in a session that is over, is gone."""
        self._session = self.database.session
        self._types.clear()
        self._are_full.clear()


def _turns(merge: Merge, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[int]:
    """How many rows of its key come before each: one statement merges only one row of a key."""
    keys = list(map(itemgetter(*map(names.index, merge.key)), rows))
    if not merge.columns or len(set(keys)) == len(keys):
        return [0] * len(rows)
    turns: list[int] = []
    seen: defaultdict[Any, int] = defaultdict(int)
    for key in keys:
        turns.append(seen[key])
        seen[key] += 1
    return turns
