"""Spark task that copies a chunk of a Marquez database to staged segments of the log.

Rows go from the socket to the file one by one: neither the JVM nor the driver sees them, and the memory of a task does
not depend on the size of a chunk.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
import psycopg
import pyarrow as pa
from msgspec import Struct, field

from clew.collector.file_import import has_reserved_name
from clew.data_dir import DatabaseUrl
from clew.errors import ClewError
from clew.eventlog.segments import UNKNOWN_TIME
from clew.eventlog.staging import IMPORT_SOURCE_PREFIX, StagedSegments
from clew.eventlog.writer import IncomingEvent, LogEntry
from clew.events.ids import event_id
from clew.events.streams import Stream
from clew.importer.marquez_database import EVENTS, RowRange, connect_marquez, events_query, query_error, read_schema
from clew.pipeline.spark.worker_daemon import trim_heap
from clew.pipeline.worker_reports import tasks_of

STAGED_SCHEMA: Final = "report binary"
_SOURCE: Final = IMPORT_SOURCE_PREFIX + "marquez"
_ATTEMPTS: Final = 4
_LARGE_BYTES: Final = 1 << 20


class StagedChunk(Struct):
    """Result of a task: the files of a chunk, in order, or the error.

    `known` events were imported before, `empty` rows have no event, and `reserved` ones use names that clew reserves.
    """

    paths: list[str] = field(default_factory=list)
    events: int = 0
    bytes: int = 0
    known: int = 0
    empty: int = 0
    reserved: int = 0
    recent_ids: list[str] = field(default_factory=list)
    error: str | None = None
    hint: str | None = None


decode_staged = msgspec.msgpack.Decoder(StagedChunk).decode
_encode = msgspec.msgpack.Encoder().encode


class StagingTask:
    """Function of `mapInArrow`: input rows are indices into `chunks`, output rows are results."""

    def __init__(
        self, url: str, log: str, chunks: Sequence[RowRange], known_ids: Collection[str], recent_from: str | None
    ) -> None:
        self._url = url
        self._log = log
        self._chunks = chunks
        self._known_ids = frozenset(known_ids)
        self._recent_from = recent_from

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Stage the chunks."""
        for chunk in tasks_of(batches, self._chunks):
            yield pa.RecordBatch.from_pydict({"report": pa.array([_encode(self.stage(chunk))], pa.binary())})

    def stage(self, chunk: RowRange) -> StagedChunk:
        """Stage one chunk; a lost connection is opened again."""
        for attempt in range(_ATTEMPTS):
            try:
                return self._copy(chunk)
            except ClewError as error:
                if attempt + 1 == _ATTEMPTS or not _is_transient(error):
                    return StagedChunk(error=error.message, hint=error.hint)
                time.sleep(2**attempt)
        raise AssertionError

    def _copy(self, chunk: RowRange) -> StagedChunk:
        result, url = StagedChunk(), DatabaseUrl(self._url, Path())
        recent_from = None if self._recent_from is None else datetime.fromisoformat(self._recent_from)
        with (
            connect_marquez(url) as connection,
            StagedSegments(Path(self._log), f"{chunk.number:08d}", _SOURCE) as segments,
            connection.cursor() as cursor,
        ):
            query = events_query(chunk, read_schema(connection, url)[EVENTS])
            try:
                with cursor.copy(query) as copy:
                    # Read as bytes: the binary format of text is UTF-8.
                    copy.set_types(["text", "bytea"])
                    for received_at, body in copy.rows():
                        self._add(segments, result, received_at, body, recent_from)
            except psycopg.Error as error:
                raise query_error(url, error) from error
        result.paths = [str(path) for path in segments.paths]
        if result.bytes > _LARGE_BYTES:
            trim_heap()
        return result

    def _add(
        self,
        segments: StagedSegments,
        result: StagedChunk,
        received_at: str | None,
        body: bytes | None,
        recent_from: datetime | None,
    ) -> None:
        if not body:
            result.empty += 1
            return
        if has_reserved_name(IncomingEvent(Stream.OPENLINEAGE, _SOURCE, body)):
            result.reserved += 1
            return
        time_text, received = _parse_time(received_at)
        identity = event_id(body)
        if recent_from is not None and received >= recent_from:
            result.recent_ids.append(identity)
        if identity in self._known_ids:
            result.known += 1
            return
        # The type of the column, jsonb, has checked the event; an older or changed schema may have text.
        entry = LogEntry.from_event(IncomingEvent(Stream.OPENLINEAGE, _SOURCE, body))
        segments.add(entry, time_text)
        result.events += 1
        result.bytes += len(body)


def _parse_time(text: str | None) -> tuple[str, datetime]:
    try:
        return text or "", datetime.fromisoformat(text or "")
    except ValueError:
        # Before the year 1 or after 9999.
        return UNKNOWN_TIME.isoformat(), UNKNOWN_TIME


def _is_transient(error: ClewError) -> bool:
    cause = error.__cause__
    return isinstance(cause, psycopg.OperationalError) and not isinstance(
        cause, psycopg.errors.InvalidPassword | psycopg.errors.InvalidAuthorizationSpecification
    )
