"""Writing to the index: what a batch changed, in one transaction with the batch's name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal, Self

from msgspec import Struct
from msgspec.structs import astuple

from clew.events.facet_order import FacetOrder
from clew.garbage import uncollected
from clew.home import Place
from clew.index.bodies import DELETED, ENOUGH_SAMPLES, Packer, Unpacker, merged, train
from clew.index.changes import Changes
from clew.index.database import Writer
from clew.index.job_versions import settle_job_versions
from clew.index.merging import Merge, merges
from clew.index.places import store_of
from clew.index.settling import settle_lineage
from clew.index.store import dictionaries_in

_IDS_PER_QUERY = 500
_EVENT_COUNT = """select (select count(*) from events) + (
    select count(*) from rejected where event_id not in (select event_id from events))"""
_NOTE = "insert into meta values (?, ?) on conflict (key) do update set value = excluded.value"
_BATCH_OF = "batch of "
_EVENTS, _EVENTS_ROW = Merge(("event_id",)), ("event_id", "batch")
_NUMBER = "select number from batches where name = ?"
_NEXT_NUMBER = "insert into batches select ?, coalesce(max(number), 0) + 1 from batches"
# What was interrupted is given again at once, so none of those before is.
_LAST_BATCHES = 1_000
_FORGET = "delete from batches where number <= ?"
# A job says the same of its output run after run: sets of edges and schemas that were just written need no second look.
_MOST_REMEMBERED = 100_000


class IndexSink:
    """The one writer of an index."""

    def __init__(
        self,
        place: Place,
        order: FacetOrder = FacetOrder.RECEIVED,
        connect: Callable[[], Writer] | None = None,
    ) -> None:
        self.place = place
        self._connect = connect or store_of(place).writer
        self._order = order
        self._merges = merges(order)

    def __enter__(self) -> Self:
        self._writer = self._connect()
        self._database = self._writer.database
        # Remembered, because it is asked for while a batch is being written.
        self.dictionary: bytes | None = None
        self._use_dictionaries()
        self._known_edge_sets: set[str] = set()
        self._known_schemas: set[str] = set()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()

    @property
    def event_count(self) -> int:
        """How many events are known here, those rejected included."""
        count: int = self._database.execute(_EVENT_COUNT).fetchone()[0]
        return count

    def known(self, event_ids: Sequence[str], batch: str, table: Literal["events", "rejected"] = "events") -> set[str]:
        """Which of the events were taken in, or rejected, with another batch already."""
        number = self._number_of(batch) or 0
        found: set[str] = set()
        for start in range(0, len(event_ids), _IDS_PER_QUERY):
            some = [bytes.fromhex(one) for one in event_ids[start : start + _IDS_PER_QUERY]]
            marks = ",".join("?" * len(some))
            query = f"select event_id from {table} where batch != ? and event_id in ({marks})"  # noqa: S608
            found.update(row[0].hex() for row in self._database.execute(query, (number, *some)))
        return found

    def learn(self, facets: Sequence[bytes]) -> None:
        """Make a dictionary of facets, unless there is one or they are too few."""
        if self.dictionary is None:
            self._learn(facets)
            self._use_dictionaries()

    def last_batch(self, app: str) -> int | None:
        """The number of the last batch of a pipeline that was taken; None if it has given none yet."""
        row = self._database.execute("select value from meta where key = ?", (f"{_BATCH_OF}{app}",)).fetchone()
        return None if row is None else int(row[0])

    def note_batch(self, app: str, number: int) -> None:
        """Say that all batches of a pipeline up to this one were taken."""
        self._database.execute(_NOTE, (f"{_BATCH_OF}{app}", str(number)))

    def apply(self, batch: str, changes: Changes, aside: Iterable[Changes] = ()) -> None:
        """Merge what a batch changed; applying it again changes nothing.

        `aside` are more changes, so large that no two are held in memory: of events that `changes` names.
        """
        with uncollected(), self._writer.transaction():
            # A backfill may have learnt one meanwhile.
            self._use_dictionaries()
            self._note_events(batch, changes)
            self._merge_all(changes)
            for more in aside:
                self._merge_all(more)
            if self.dictionary is None:
                self._learn(self._bodies_in(changes))
            self._note_progress(batch, max((seq for seq, _ in (*changes.events, *changes.rejected)), default=0))
        self._use_dictionaries()
        _remember(self._known_edge_sets, (edge.edge_set for edge in changes.edge_sets))
        _remember(self._known_schemas, (schema.schema_id for schema in changes.schemas))

    def complete(self) -> None:
        """Make what a builder has left out."""
        self._writer.complete()

    def let_go(self) -> None:
        """Give back memory that can be had again."""
        self._writer.let_go()

    def _note_events(self, batch: str, changes: Changes) -> None:
        number = self._number_of(batch)
        if number is None:
            self._database.execute(_NEXT_NUMBER, (batch,))
            number = self._number_of(batch) or 0
            self._database.execute(_FORGET, (number - _LAST_BATCHES,))
        for table, events in (("events", changes.events), ("rejected", changes.rejected)):
            rows = [(bytes.fromhex(identity), number) for _, identity in events]
            self._writer.merge(table, _EVENTS, _EVENTS_ROW, rows)

    def _number_of(self, batch: str) -> int | None:
        row = self._database.execute(_NUMBER, (batch,)).fetchone()
        return None if row is None else int(row[0])

    def _merge_all(self, said: Changes) -> None:
        changes = self._writer.fitted(said)
        changes.edge_sets = [edge for edge in changes.edge_sets if edge.edge_set not in self._known_edge_sets]
        changes.schemas = [schema for schema in changes.schemas if schema.schema_id not in self._known_schemas]
        for table in self._merges:
            self._merge(table, getattr(changes, table))
        settle_lineage(self._database, changes)
        settle_job_versions(self._database, {run.run_uuid for run in changes.runs})
        self._writer.put_facets(changes.facets, self._merged_facets)

    def _merge(self, table: str, rows: Sequence[Struct]) -> None:
        if rows:
            names = type(rows[0]).__struct_fields__
            self._writer.merge(table, self._merges[table], names, list(map(astuple, rows)))

    def _merged_facets(self, known: bytes, said: bytes) -> bytes:
        facets, news = self._unpacker.unpack(known), self._unpacker.unpack(said)
        found = merged(facets, news, self._order)
        # Most often an event says all of an entity that earlier ones did.
        return said if found == news else self._packer.pack(found)

    def _bodies_in(self, changes: Changes) -> list[bytes]:
        facets = (facet for row in changes.facets for facet in self._unpacker.unpack(row.body))
        return [facet.body for facet in facets if facet.body != DELETED]

    def _note_progress(self, batch: str, seq: int) -> None:
        self._database.execute(
            """insert into meta as known values ('indexed_seq', ?) on conflict (key) do update
            set value = cast(max(cast(known.value as bigint), cast(excluded.value as bigint)) as text)""",
            (str(seq),),
        )
        progress = {"last_batch": batch, "indexed_at": datetime.now(UTC).isoformat(timespec="milliseconds")}
        self._database.executemany(_NOTE, list(progress.items()))
        app, _, number = batch.rpartition("/")
        if number.isdecimal():
            self.note_batch(app, int(number))

    def _learn(self, facets: Sequence[bytes]) -> None:
        if len(facets) >= ENOUGH_SAMPLES:
            self._database.execute("insert into dictionaries values (?, ?) on conflict do nothing", train(facets))

    def _use_dictionaries(self) -> None:
        """Pack and unpack with what is stored; with none as long as too few facets are known to learn from."""
        known = dictionaries_in(self._database)
        latest = next(reversed(known.values()), None)
        if self.dictionary is None or latest != self.dictionary:
            self.dictionary = latest
            self._packer, self._unpacker = Packer(latest), Unpacker(known)


def _remember(known: set[str], written: Iterable[str]) -> None:
    if len(known) > _MOST_REMEMBERED:
        known.clear()
    known.update(written)
