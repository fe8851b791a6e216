"""Writing to the index: what a batch changed, in one transaction with the batch's name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from msgspec import Struct
from msgspec.structs import astuple

from clew.events.openlineage import FACET_ALIASES
from clew.index.bodies import DELETED, ENOUGH_SAMPLES, Unpacker, train
from clew.index.changes import Changes, FacetRow
from clew.index.merging import MERGES
from clew.index.store import connect_writer, transaction

_IDS_PER_QUERY = 500
_EVENT_COUNT = """select (select count(*) from events) + (
    select count(*) from rejected where event_id not in (select event_id from events))"""
_FIRST = 1


class IndexSink:
    """The one writer of an index."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Self:
        self._database = connect_writer(self.path)
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
        found: set[str] = set()
        for start in range(0, len(event_ids), _IDS_PER_QUERY):
            some = event_ids[start : start + _IDS_PER_QUERY]
            marks = ",".join("?" * len(some))
            query = f"select event_id from {table} where batch != ? and event_id in ({marks})"  # noqa: S608
            found.update(row[0] for row in self._database.execute(query, (batch, *some)))
        return found

    @property
    def dictionary(self) -> bytes | None:
        """What facets are to be packed with; None as long as too few are known to learn from."""
        row = self._database.execute("select body from dictionaries order by id desc limit 1").fetchone()
        return None if row is None else row[0]

    def learn(self, facets: Sequence[bytes]) -> None:
        """Make a dictionary of facets, unless there is one or they are too few."""
        if self.dictionary is None and len(facets) >= ENOUGH_SAMPLES:
            self._database.execute("insert into dictionaries values (?, ?)", (_FIRST, train(facets, _FIRST)))

    def apply(self, batch: str, changes: Changes) -> None:
        """Merge what a batch changed; applying it again changes nothing."""
        with transaction(self._database):
            for table, events in (("events", changes.events), ("rejected", changes.rejected)):
                new = ((identity, batch) for _, identity in events)
                self._database.executemany(f"insert or ignore into {table} values (?, ?)", new)  # noqa: S608
            for table in MERGES:
                self._merge(table, getattr(changes, table))
            self._put_facets(changes.facets)
            if self.dictionary is None and len(changes.facets) >= ENOUGH_SAMPLES:
                unpack = Unpacker().unpack
                self.learn([unpack(facet.body) for facet in changes.facets if facet.body != DELETED])
            self._note_progress(batch, max((seq for seq, _ in (*changes.events, *changes.rejected)), default=0))

    def _merge(self, table: str, rows: Sequence[Struct]) -> None:
        if rows:
            statement = MERGES[table].upsert(table, type(rows[0]).__struct_fields__)
            self._database.executemany(statement, map(astuple, rows))

    def _put_facets(self, facets: Iterable[FacetRow]) -> None:
        self._database.executemany(
            """insert into facets values (?, ?, ?, ?, ?, ?) on conflict do update
            set seq = excluded.seq, event_time = excluded.event_time, body = excluded.body where excluded.seq >= seq""",
            [
                (
                    facet.kind,
                    facet.entity,
                    FACET_ALIASES.get(facet.name, facet.name),
                    facet.seq,
                    facet.event_time,
                    facet.body,
                )
                for facet in facets
            ],
        )

    def _note_progress(self, batch: str, seq: int) -> None:
        self._database.execute(
            """insert into meta values ('indexed_seq', ?) on conflict do update
            set value = max(cast(value as integer), cast(excluded.value as integer))""",
            (str(seq),),
        )
        progress = {"last_batch": batch, "indexed_at": datetime.now(UTC).isoformat(timespec="milliseconds")}
        self._database.executemany("insert or replace into meta values (?, ?)", progress.items())
