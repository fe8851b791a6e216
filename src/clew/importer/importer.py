"""Imports: from a Marquez database, from the API of a Marquez server, and from event files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from clew.collector.file_import import import_files
from clew.data_dir import DatabaseUrl, DataDir
from clew.errors import ClewError, UsageError
from clew.eventlog.staging import IMPORT_SOURCE_PREFIX, StagedSegments
from clew.eventlog.writer import IncomingEvent
from clew.events.streams import Stream
from clew.importer.database_entities import read_entities, read_job_aliases, read_version_aliases
from clew.importer.entities import EntityDocuments, annotation_events
from clew.importer.event_files import read_annotation_files, resolve_event_files
from clew.importer.handover import LogHandover
from clew.importer.ingestion import IngestionResult, SparkOptions, ingest_imported_events
from clew.importer.marquez_api import MarquezServer, read_api_entities, read_api_events
from clew.importer.marquez_database import (
    EventPlan,
    RowRange,
    Schema,
    connect_marquez,
    count_rows,
    database_identity,
    plan_events,
    read_schema,
    sample_events,
)
from clew.importer.staging_task import STAGED_SCHEMA, StagedChunk, StagingTask, decode_staged
from clew.importer.state import ImportState, imports_folder
from clew.index.backends.sqlite import MissingIndexError
from clew.index.queries.reader import IndexReader
from clew.pipeline.checkpoint import Checkpoint
from clew.pipeline.locks import acquire_lock
from clew.pipeline.spark.dataframes import map_ordered
from clew.pipeline.spark.session import get_session, translate_spark_errors
from clew.progress import ProgressCallback, no_progress
from clew.query.entities.aliases import AliasStore
from clew.query.entities.annotations import NO_ANNOTATIONS, Annotations, read_annotations

_LOCK: Final = ".lock"
_SAMPLE_EVENTS: Final = 3
_COUNTED_TABLES: Final = (
    "namespaces",
    "jobs",
    "datasets",
    "runs",
    "dataset_versions",
    "tags",
    "datasets_tag_mapping",
    "dataset_fields_tag_mapping",
    "jobs_tag_mapping",
)
_SOURCE: Final = IMPORT_SOURCE_PREFIX + "marquez"
_FILES_SOURCE: Final = IMPORT_SOURCE_PREFIX + "files"
# Not deferred: entities and annotations are few, and their facets are what matters.
_ENTITY_SOURCE: Final = "clew-import"
# After the chunks, in the order of names.
_ENTITIES_NAME, _API_NAME, _FILES_NAME = "entities", "api", "files"
_BYTES_PER_APPEND: Final = 4 << 20
StepCallback = Callable[[int, int, int], None]


class ImportSummary(Struct):
    """Result of an import: events new to the log, and what was skipped."""

    source: str
    events: int = 0
    bytes: int = 0
    known_events: int = 0
    empty_rows: int = 0
    reserved_names: int = 0
    entity_events: int = 0
    annotations: int = 0
    aliases: int = 0
    ingestion: IngestionResult = msgspec.field(default_factory=IngestionResult)


class ImportPreview(Struct):
    """What an import would read, counted without writing anything."""

    source: str
    events: int
    new_events: int
    bytes: int
    first_event: str | None
    last_event: str | None
    counts: dict[str, int]
    sample: list[str]


@dataclass(frozen=True)
class ImportContext:
    """Data directory, Spark and callbacks of an import."""

    home: DataDir
    spark: SparkOptions = field(default_factory=SparkOptions)
    on_status: ProgressCallback = no_progress
    on_step: StepCallback = lambda *_: None
    # Fill the facet tables at the end.
    has_backfill: bool = True
    # Read events again that were imported before.
    is_full: bool = False
    has_ingestion: bool = True

    def finish(self, result: ImportSummary) -> ImportSummary:
        """Ingest what was appended to the log."""
        if self.has_ingestion:
            result.ingestion = ingest_imported_events(
                self.home, self.spark, self.on_status, self.on_step, has_backfill=self.has_backfill
            )
        return result


def preview_database(context: ImportContext, url: DatabaseUrl) -> ImportPreview:
    """Count what an import of a database would read."""
    with connect_marquez(url) as connection:
        schema = read_schema(connection, url)
        state = _load_state(context, str(url), database_identity(connection))
        plan = plan_events(connection, schema, state.position)
        sample = sample_events(connection, schema, _SAMPLE_EVENTS)
        counts = count_rows(connection, schema, _COUNTED_TABLES)
    new = plan.rows - len(state.recent_ids) if plan.rows else 0
    return ImportPreview(
        str(url), sample.rows, max(0, new), sample.bytes, sample.first, sample.last, counts, sample.events
    )


def import_database(context: ImportContext, url: DatabaseUrl) -> ImportSummary:
    """Import a Marquez database: its events in the order received, then what is not in events."""
    home, result = context.home, ImportSummary(str(url))
    with _exclusive(home):
        context.on_status("Reading the plan of the import")
        with connect_marquez(url) as connection:
            schema, identity = read_schema(connection, url), database_identity(connection)
            state = _load_state(context, str(url), identity)
            plan = plan_events(connection, schema, state.position)
        with LogHandover(home) as handover:
            if plan.chunks:
                _copy_events(context, url, plan, state, identity, handover, result)
            context.on_status("Reading tags, owners and versions")
            _import_database_entities(home, url, schema, state, handover, result)
            state.save(home, identity)
    return context.finish(result)


def _copy_events(
    context: ImportContext,
    url: DatabaseUrl,
    plan: EventPlan,
    state: ImportState,
    identity: str,
    handover: LogHandover,
    result: ImportSummary,
) -> None:
    home, known_ids = context.home, frozenset(state.recent_ids)
    context.on_status("Starting Spark")
    spark = get_session(home, context.spark.session, master=context.spark.master, conf=context.spark.conf)
    if not (spark.sparkContext.master or "").startswith("local"):
        hint = "Use --master local[4], for example."
        raise UsageError("An import writes to the log of this machine, and needs a local Spark master.", hint=hint)

    def stage(chunk: RowRange) -> StagedChunk:
        task = StagingTask(url.text, str(home.log), [chunk], known_ids, plan.recent_from)
        rows = spark.range(0, 1, 1, 1).mapInArrow(task, STAGED_SCHEMA).toArrow()
        return decode_staged(rows["report"][0].as_py())

    context.on_status("Importing events")
    done, recent_ids = 0, list[str]()
    with translate_spark_errors():
        staged_chunks = map_ordered(stage, plan.chunks, spark)
        for chunk, staged in zip(plan.chunks, staged_chunks, strict=True):
            if staged.error is not None:
                message = f"{staged.error} {result.events:,} events are in the log."
                raise ClewError(message, hint=staged.hint)
            handover.append(map(Path, staged.paths))
            result.events += staged.events
            result.bytes += staged.bytes
            result.known_events += staged.known
            result.empty_rows += staged.empty
            result.reserved_names += staged.reserved
            recent_ids += staged.recent_ids
            state.events += staged.events
            state.advance(chunk, plan, staged.recent_ids)
            # After the append: a chunk that is repeated after a crash has events that the pipeline knows.
            state.save(home, identity)
            done += chunk.rows
            context.on_step(done, plan.rows, result.events)
    state.recent_ids = recent_ids


def _import_database_entities(
    home: DataDir, url: DatabaseUrl, schema: Schema, state: ImportState, handover: LogHandover, result: ImportSummary
) -> None:
    documents = EntityDocuments(_current_annotations(home))
    with connect_marquez(url) as connection:
        read_entities(connection, schema, documents)
        store = AliasStore(home.index)
        result.aliases = store.write(read_job_aliases(connection, schema), read_version_aliases(connection, schema))
    _append_entities(home, documents, state, handover, result)


def _append_entities(
    home: DataDir, documents: EntityDocuments, state: ImportState, handover: LogHandover, result: ImportSummary
) -> None:
    annotations = state.new_annotations(documents.annotations)
    with StagedSegments(home.log, _ENTITIES_NAME, _ENTITY_SOURCE) as segments:
        events = state.new_events(documents.events)
        result.entity_events = segments.append(_incoming(events, _ENTITY_SOURCE))
        segments.append(_incoming(annotation_events(annotations), _ENTITY_SOURCE))
        result.annotations = len(annotations)
    handover.append(segments.paths)


def preview_server(context: ImportContext, server: MarquezServer) -> ImportPreview:
    """Count what an import over HTTP would read."""
    state = _load_state(context, server.url, server.url)
    events, count = server.event_page(state.position.received, _SAMPLE_EVENTS)
    sample = [event.decode() for event in events]
    counts = server.counts()
    return ImportPreview(server.url, count, count, 0, None, None, counts, sample)


def import_server(context: ImportContext, server: MarquezServer) -> ImportSummary:
    """Import over the API of a Marquez server: its run events by event time, then what is not in them."""
    home, result = context.home, ImportSummary(server.url)
    with _exclusive(home), LogHandover(home) as handover:
        state = _load_state(context, server.url, server.url)
        context.on_status("Importing events")
        known_jobs, known_datasets = set[tuple[str, str]](), set[tuple[str, str]]()
        for number, page in enumerate(read_api_events(server, state)):
            known_jobs |= page.jobs
            known_datasets |= page.datasets
            with StagedSegments(home.log, f"{_API_NAME}-{number:08d}", _SOURCE) as segments:
                for entry, received_at in page.entries:
                    segments.add(entry, received_at)
                    result.events += 1
                    result.bytes += len(entry.body)
            handover.append(segments.paths)
            result.known_events += page.known
            state.events += len(page.entries)
            state.position, state.recent_ids = page.position, page.recent_ids
            state.save(home, server.url)
            context.on_step(result.events, page.total, result.events)
        context.on_status("Reading tags, owners and versions")
        documents = EntityDocuments(_current_annotations(home))
        aliases = read_api_entities(server, documents, known_jobs, known_datasets, is_first=not state.has_entities)
        result.aliases = AliasStore(home.index).write(aliases.jobs, aliases.versions)
        _append_entities(home, documents, state, handover, result)
        state.has_entities = True
        state.save(home, server.url)
    return context.finish(result)


def import_event_files(context: ImportContext, locations: Sequence[str]) -> ImportSummary:
    """Import NDJSON and JSON files of events, plain or compressed, from folders or S3, and exported annotations."""
    home, result = context.home, ImportSummary(", ".join(locations))
    with _exclusive(home), LogHandover(home) as handover, resolve_event_files(locations) as sources:
        context.on_status("Importing events")
        for number, path in enumerate(sources):
            error = None
            with StagedSegments(home.log, f"{_FILES_NAME}-{number:08d}", _FILES_SOURCE) as segments:
                try:
                    imported = import_files([path], segments, context.on_step)
                    result.reserved_names += imported.read - imported.stored
                except ClewError as exc:
                    # What could be read before the error is imported.
                    error = exc
            handover.append(segments.paths)
            result.events += segments.events
            result.bytes += segments.bytes
            if error is not None:
                raise error
        annotations = read_annotation_files(locations)
        with StagedSegments(home.log, _ENTITIES_NAME, _ENTITY_SOURCE) as segments:
            segments.append(_incoming(annotation_events(annotations), _ENTITY_SOURCE))
        handover.append(segments.paths)
        result.annotations = len(annotations)
    return context.finish(result)


def _incoming(events: Iterable[bytes], source: str) -> Iterator[IncomingEvent]:
    return (IncomingEvent(Stream.OPENLINEAGE, source, body) for body in events)


def _load_state(context: ImportContext, source: str, identity: str) -> ImportState:
    return ImportState(source) if context.is_full else ImportState.load(context.home, source, identity)


@contextmanager
def _exclusive(home: DataDir) -> Iterator[None]:
    home.create()
    topic = Checkpoint(home.checkpoint).topic
    if topic:
        hint = "Import into a data directory of its own with --home, without --kafka."
        raise UsageError(
            f"Events are imported into the log, but {home.root} ingests the Kafka topic {topic}.", hint=hint
        )
    with acquire_lock(imports_folder(home) / _LOCK, "import"):
        yield


def _current_annotations(home: DataDir) -> Annotations:
    try:
        with IndexReader(home.index) as index:
            return read_annotations(index)
    except MissingIndexError:
        return NO_ANNOTATIONS
