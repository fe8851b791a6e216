"""`clew pipeline`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from clew.capture.emit.worker import expand_abandoned
from clew.cli.options import (
    facet_order_option,
    json_flag,
    json_option,
    kafka_options,
    lake_option,
    metrics_options,
    require_age,
    spark_options,
)
from clew.cli.output import format_bytes, format_count, print_json, show_progress, stderr_console, stdout_console
from clew.collector.file_import import adopt_published, import_files, import_streams, pending_stream_bytes
from clew.config import resolve_setting
from clew.data_dir import BucketUrl, DataDir, parse_lake_location
from clew.errors import ClewError, MissingExtraError, UsageError
from clew.eventlog.segments import end_position
from clew.eventlog.writer import LogLockedError, LogWriter
from clew.events.decoding import RejectionReason
from clew.events.facets import FacetOrder
from clew.pipeline.checkpoint import Checkpoint, open_log, open_log_or_topic
from clew.pipeline.supervisor import exit_with_parent

if TYPE_CHECKING:
    from clew.cli.progress import ProgressDisplay
    from clew.collector.file_import import EventAppender, OnImportProgress
    from clew.kafka.config import KafkaConfig
    from clew.lake.history import Rejection
    from clew.pipeline.checkpoint import BatchRecord
    from clew.pipeline.ingest import IngestStats
    from clew.pipeline.maintenance import MaintenanceResult
    from clew.pipeline.metrics import PipelineMetrics
    from clew.pipeline.own_lineage import JobKind, OwnLineage
    from clew.pipeline.pipeline import BatchListener
    from clew.pipeline.reprocess import BackfillProgress, ReplayStats
    from clew.pipeline.sources.event_source import EventSource
    from clew.pipeline.status import PipelineStatus


def _print_backfill(result: BackfillProgress) -> None:
    console = stderr_console()
    if not result.chunks:
        console.print("Nothing to backfill.")
        return
    throughput = result.events / max(result.seconds, 0.001)
    chunks = format_count(result.chunks, "chunk")
    console.print(f"Backfilled {format_count(result.events, 'event')} in {chunks}, {throughput:,.0f} events/s.")
    if not result.is_derived_refreshed:
        console.print("Derived tables are stale; the running pipeline refreshes them.")


@click.group("pipeline")
def pipeline_group() -> None:
    """Process recorded events into tables and an index."""


@pipeline_group.command("backfill")
@click.option(
    "--chunk-mb",
    type=click.IntRange(1, 1024),
    default=128,
    show_default=True,
    help="Size of a chunk of the log in MB; each chunk is one commit.",
)
@json_option(_print_backfill)
@lake_option
@spark_options
def backfill_command(chunk_mb: int, home: DataDir, master: str, conf: dict[str, str]) -> BackfillProgress:
    """Fill the facet tables of events ingested with --raw-only, newest first.

    Can be used while a pipeline is running. An interrupted backfill continues where it stopped.
    """
    from clew.pipeline.reprocess import run_backfill

    with show_progress() as progress:

        def step(state: BackfillProgress) -> None:
            progress.step(state.events, state.events + state.remaining, state.events)

        return run_backfill(
            home, chunk_bytes=chunk_mb << 20, on_status=progress, on_progress=step, master=master, conf=conf
        )


class _EventLocation(click.ParamType):  # type: ignore[type-arg]  # not generic at run time
    """A path of event files, or the URL of a prefix of event objects."""

    name = "path|url"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Path | BucketUrl:
        """Parse the text."""
        del param, context
        return parse_event_location(value) if isinstance(value, str) else value


def parse_event_location(text: str) -> Path | BucketUrl:
    """Parse a path, or a URL such as s3://bucket/prefix."""
    if "://" not in text:
        return Path(text)
    location = parse_lake_location(text)
    if isinstance(location, Path):
        return location
    if find_spec("obstore") is None:
        raise MissingExtraError.for_module("s3", "obstore")
    return location


_WEEK_HOURS = 7 * 24
# A century.
_MAX_RETENTION_HOURS = 876_600
_log_retention_option = click.option(
    "--log-retention",
    type=require_age,
    metavar="AGE",
    help="Delete log segments older than this, such as 30d or 36h, once they are ingested.",
)


_reset_offsets_option = click.option(
    "--reset-offsets",
    "must_reset",
    is_flag=True,
    help="With --kafka: start a new checkpoint at the first offsets of the topic. Events in the lake are skipped.",
)
_own_lineage_option = click.option(
    "--emit-own-lineage",
    "has_own_lineage",
    is_flag=True,
    envvar="CLEW_OWN_LINEAGE",
    help="Report the runs of the pipeline, and the tables that it writes, as OpenLineage events.",
)


@pipeline_group.command("run")
@click.option(
    "--from",
    "locations",
    multiple=True,
    type=_EventLocation(),
    help="NDJSON files (plain, .gz or .zst), directories of them, or the URL of a prefix, such as s3://bucket/prefix,"
    " to ingest as well.",
)
@click.option(
    "--raw-only",
    "is_raw_only",
    is_flag=True,
    help="Ingest events only; fill the facet tables later with `clew pipeline backfill`.",
)
@facet_order_option("Only for a new lake; default: received.")
@kafka_options
@_reset_offsets_option
@click.option(
    "--metrics-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write Prometheus metrics to this file, for the textfile collector.",
)
@_own_lineage_option
@json_flag
@lake_option
@spark_options
def pipeline_run(  # noqa: PLR0913
    *,
    locations: tuple[Path | BucketUrl, ...],
    is_raw_only: bool,
    facet_order: FacetOrder | None,
    kafka: KafkaConfig | None,
    must_reset: bool,
    metrics_file: Path | None,
    has_own_lineage: bool,
    as_json: bool,
    home: DataDir,
    master: str,
    conf: dict[str, str],
) -> None:
    """Ingest all available events, then stop.

    With --kafka, the topic takes the place of the log: its messages are ingested, and new notebook events and files
    are produced to it first. Exits with 1 if events were rejected. They are stored with the reason in the table
    rejected_events.
    """
    # Imported here: `clew pipeline status` must not load Spark.
    from clew.lake.history import recent_rejections
    from clew.pipeline.pipeline import open_pipeline

    metrics = _metrics(home, is_enabled=metrics_file is not None)
    with show_progress() as progress:
        progress("Reading events")
        _check_log(home, progress)
        source = _event_source(home, kafka, must_reset=must_reset)
        try:
            with open_log_or_topic(home, kafka) as log:
                _import_notebook_events(home, log)
                import_files([item for item in locations if isinstance(item, Path)], log, progress.step)
                _import_objects(locations, log, progress.step)
        except LogLockedError:
            if locations:
                raise
            _print_log_locked()
        own_lineage = _own_lineage(home, "run", is_enabled=has_own_lineage)
        listeners: tuple[BatchListener, ...] = (_batch_progress(home, progress), *metrics, *own_lineage)
        with open_pipeline(
            home,
            on_progress=progress,
            master=master,
            conf=conf,
            listeners=listeners,
            facet_order=facet_order,
            source=source,
        ) as pipeline:
            progress("Ingesting events")
            runner = replace(pipeline, is_raw_only=is_raw_only)
            with _reported(own_lineage):
                stats = runner.ingest_available()
            if own_lineage and _import_if_unlocked(home, kafka):
                runner.ingest_available()
            runner.refresh()
            rejections = recent_rejections(pipeline.lake.root, stats.rejected)
    _print_stats(stats, rejections, as_json=as_json)
    if metrics_file is not None:
        metrics[0].write(metrics_file)
    sys.exit(1 if stats.rejected else 0)


def ingest_new_events(home: DataDir) -> None:
    """Ingest events that notebooks wrote since the last run; nothing if another process ingests, or without Spark."""
    if find_spec("pyspark") is None or not pending_stream_bytes(home.streams, home.log):
        return
    if Checkpoint(home.checkpoint).topic:
        # Its brokers are not known here.
        return
    from clew.pipeline.locks import LockedError
    from clew.pipeline.pipeline import open_pipeline

    with show_progress() as progress:
        progress("Ingesting new events of notebooks")
        try:
            with open_log(home) as log:
                _import_notebook_events(home, log)
            master = str(resolve_setting("master").value)
            with open_pipeline(home, on_progress=progress, master=master, conf={}) as pipeline:
                pipeline.run()
        except (LogLockedError, LockedError):
            # `clew up` or `clew pipeline stream` owns the pipeline and ingests the events itself.
            return


@pipeline_group.command("stream")
@click.option(
    "--from",
    "locations",
    multiple=True,
    type=_EventLocation(),
    help="URL of a prefix to watch, such as s3://bucket/prefix: new objects are ingested as well; may be repeated.",
)
@click.option(
    "--maintenance/--no-maintenance",
    "has_maintenance",
    default=True,
    show_default=True,
    help="Compact and vacuum the lake and refresh derived tables in the background.",
)
@click.option(
    "--refresh-minutes",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="Minimum time between refreshes of derived tables.",
)
@_log_retention_option
@kafka_options
@_reset_offsets_option
@metrics_options
@_own_lineage_option
@click.option("--exit-with-parent", "is_child", is_flag=True, hidden=True, help="Exit when stdin is closed.")
@json_flag
@lake_option
@spark_options
def pipeline_stream(  # noqa: PLR0913
    *,
    locations: tuple[Path | BucketUrl, ...],
    has_maintenance: bool,
    refresh_minutes: float,
    log_retention: timedelta | None,
    kafka: KafkaConfig | None,
    must_reset: bool,
    metrics_port: int | None,
    metrics_host: str,
    has_own_lineage: bool,
    is_child: bool,
    as_json: bool,
    home: DataDir,
    master: str,
    conf: dict[str, str],
) -> None:
    """Ingest notebook events and log records continuously, until Ctrl-C or SIGTERM.

    At a stop, received events are ingested for a few seconds; the others stay in the log. Derived tables are not
    refreshed then. With --kafka, the messages of a topic are ingested instead of the log.
    """
    from clew.lake.history import recent_rejections
    from clew.pipeline.maintenance import MaintenanceConfig
    from clew.pipeline.pipeline import open_pipeline

    if is_child:
        exit_with_parent()
    if kafka is not None and log_retention is not None:
        raise UsageError("--log-retention is for the log, not for a topic.", hint="Set retention.ms of the topic.")
    stop, is_started = Event(), Event()
    metrics = _metrics(home, is_enabled=metrics_port is not None)
    with ExitStack() as stack:
        progress = stack.enter_context(show_progress())
        _check_log(home, progress)
        source = _event_source(home, kafka, must_reset=must_reset)
        import_events = _stream_importer(home, kafka, locations, stop, stack, is_child=is_child)

        if metrics_port is not None:
            check_ready = partial(_check_started, is_started)
            port = stack.enter_context(metrics[0].serve(metrics_host, metrics_port, check_ready))
            stderr_console().print(f"Metrics at http://{metrics_host}:{port}/metrics")
        own_lineage = _own_lineage(home, "stream", is_enabled=has_own_lineage)
        listeners: tuple[BatchListener, ...] = (*metrics, *own_lineage)
        pipeline = stack.enter_context(
            open_pipeline(home, on_progress=progress, master=master, conf=conf, listeners=listeners, source=source)
        )
        stack.enter_context(_reported(own_lineage))
        for signal_number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signal_number, lambda *_: stop.set())
        progress("Ingesting events; Ctrl-C stops")
        is_started.set()
        stats = pipeline.stream(
            stop,
            on_poll=import_events,
            maintenance=MaintenanceConfig(refresh_interval_seconds=60 * refresh_minutes, log_retention=log_retention)
            if has_maintenance
            else None,
            maintenance_stats=metrics[0].maintenance_stats if metrics else None,
        )
        rejections = recent_rejections(pipeline.lake.root, stats.rejected)
    _print_stats(stats, rejections, as_json=as_json)


def _check_started(is_started: Event) -> None:
    if not is_started.is_set():
        raise ClewError("The pipeline is starting.")


def _print_status(status: PipelineStatus) -> None:
    from clew.cli.render.runs import batch_table, size_table, status_lines

    console = stdout_console()
    for line in status_lines(status):
        console.print(line)
    for table in (batch_table(status.batches), size_table(status.tables)):
        console.print()
        console.print(table)


@pipeline_group.command("status")
@json_option(_print_status)
@lake_option
def pipeline_status(home: DataDir) -> PipelineStatus:
    """Show log offset and lag, the last batches, rejected events and table sizes.

    Read-only, without Spark; can be used while a pipeline is running.
    """
    from clew.pipeline.status import read_status

    return read_status(home)


def _print_maintenance(result: MaintenanceResult) -> None:
    console = stderr_console()
    before, after = (sum(files[position] for files in result.compacted.values()) for position in (0, 1))
    count, size = (sum(files[position] for files in result.vacuumed.values()) for position in (0, 1))
    expired = result.expired
    if expired.deleted_rows or expired.segments:
        rows = format_count(sum(expired.deleted_rows.values()), "row")
        segments = format_count(expired.segments, "log segment")
        console.print(f"Expired {rows} and {segments} ({format_bytes(expired.segment_bytes)}).")
    if expired.log_events:
        console.print(f"Removed {format_count(expired.log_events, 'event')} within the log.")
    console.print(f"Compacted {format_count(before, 'file')} of event tables into {after:,}.")
    console.print(f"Removed {format_count(count, 'unreferenced file')} ({format_bytes(size)}).")
    if result.is_refreshed:
        console.print("Refreshed derived tables.")
    if result.is_refresh_deferred:
        console.print("Derived tables are stale; the running pipeline refreshes them.")


@pipeline_group.command("compact")
@click.option(
    "--retention-hours",
    type=click.IntRange(max=_MAX_RETENTION_HOURS),
    default=_WEEK_HOURS,
    show_default=True,
    help="Keep files that are referenced by table versions younger than this.",
)
@click.option(
    "--drop-older-than",
    type=require_age,
    metavar="AGE",
    help="Delete events received longer ago than this, such as 90d or 36h. Not possible while a pipeline is running.",
)
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="PREFIX",
    help="With --drop-older-than: only events of jobs, and of datasets without a job, in namespaces that start with"
    " this; may be repeated.",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(["run", "job", "dataset", "cell", "operation", "rejected"]),
    help="With --drop-older-than: only events of runs, jobs, datasets, notebook cells or DataFrame operations, or"
    " rejected events; may be repeated.",
)
@_log_retention_option
@click.option(
    "--force",
    "is_forced",
    is_flag=True,
    help="Allow --retention-hours below 24. Older versions become unreadable, and running queries may fail.",
)
@json_option(_print_maintenance)
@lake_option
@spark_options
def pipeline_compact(  # noqa: PLR0913
    *,
    retention_hours: int,
    drop_older_than: timedelta | None,
    namespaces: tuple[str, ...],
    kinds: tuple[str, ...],
    log_retention: timedelta | None,
    is_forced: bool,
    home: DataDir,
    master: str,
    conf: dict[str, str],
) -> MaintenanceResult:
    """Compact small files of the lake and vacuum unreferenced files.

    Can be used while a pipeline is running. Starts Spark only if derived tables must be refreshed.
    """
    from clew.lake.compaction import ExpiredKind, ExpiredSelection
    from clew.pipeline.maintenance import run_maintenance

    if (namespaces or kinds) and drop_older_than is None:
        raise UsageError("--namespace and --kind require --drop-older-than.", hint="Pass an age, such as 90d.")
    with show_progress() as progress:
        return run_maintenance(
            home,
            retention_hours,
            drop_older_than=drop_older_than,
            selection=ExpiredSelection(namespaces, tuple(map(ExpiredKind, kinds))),
            log_retention=log_retention,
            is_forced=is_forced,
            on_progress=progress,
            master=master,
            conf=conf,
        )


def _print_replay(stats: ReplayStats) -> None:
    console = stderr_console()
    next_step = "; run `clew pipeline run` to ingest them" if stats.replayed else ""
    console.print(f"Appended {format_count(stats.replayed, 'rejected event')} to the log{next_step}.")
    for count, description in (
        (stats.still_rejected, "still rejected"),
        (stats.already_queued, "already in the log"),
        (stats.already_ingested, "already ingested"),
    ):
        if count:
            console.print(f"{count:,} {description}.")


@pipeline_group.command("replay")
@click.option(
    "--reason",
    type=click.Choice([reason.value for reason in RejectionReason]),
    help="Only events rejected for this reason.",
)
@kafka_options
@json_option(_print_replay)
@lake_option
def pipeline_replay(reason: str | None, kafka: KafkaConfig | None, home: DataDir) -> ReplayStats:
    """Retry rejected events after an upgrade or a fix.

    Events that are valid now are appended to the log, or produced to the topic of --kafka, and the next run ingests
    them.
    """
    if kafka is not None:
        from clew.pipeline.sources.topic_source import replay_to_topic

        return replay_to_topic(home, kafka, reason)
    from clew.pipeline.reprocess import replay_rejected_events

    return replay_rejected_events(home, reason)


def _own_lineage(home: DataDir, kind: JobKind, *, is_enabled: bool) -> list[OwnLineage]:
    """Return a list of one OwnLineage, or an empty list."""
    if not is_enabled:
        return []
    from clew.pipeline.own_lineage import OwnLineage

    return [OwnLineage(home, kind)]


@contextmanager
def _reported(own_lineage: Sequence[OwnLineage]) -> Iterator[None]:
    """Report the batches of a block, and its error, as a run of the pipeline."""
    try:
        yield
    except ClewError as error:
        for item in own_lineage:
            item.emit(error)
        raise
    for item in own_lineage:
        item.emit()


def _import_if_unlocked(home: DataDir, kafka: KafkaConfig | None) -> bool:
    """Import event files; return False if a collector holds the log, which imports them."""
    try:
        with open_log_or_topic(home, kafka) as log:
            import_streams(home.streams, log)
    except LogLockedError:
        return False
    return True


def _import_objects(locations: Sequence[Path | BucketUrl], log: EventAppender, on_progress: OnImportProgress) -> None:
    if prefixes := [item for item in locations if isinstance(item, BucketUrl)]:
        from clew.pipeline.sources.object_import import ObjectImporter

        with ObjectImporter(prefixes, log) as importer:
            importer.import_all(on_progress)


def _event_source(home: DataDir, kafka: KafkaConfig | None, *, must_reset: bool) -> EventSource:
    """Return the source of events; UsageError or ClewError if the checkpoint is of another one."""
    from clew.pipeline.sources.event_source import LOG

    if kafka is None:
        if must_reset:
            raise UsageError("--reset-offsets requires --kafka.", hint="Pass --kafka and --topic as well.")
        LOG.check_checkpoint(Checkpoint(home.checkpoint))
        return LOG
    from clew.pipeline.sources.topic_source import TopicEvents

    return TopicEvents(kafka, must_reset=must_reset)


def _check_log(home: DataDir, progress: ProgressDisplay) -> None:
    """Report what is missing in the log, and a removal that was interrupted."""
    from clew.pipeline.forget import read_pending_target
    from clew.pipeline.preflight import check_log_offsets

    check_log_offsets(home, progress)
    if target := read_pending_target(home):
        progress(f"The removal of {target} was interrupted: run `clew forget --resume`")


def _stream_importer(
    home: DataDir,
    kafka: KafkaConfig | None,
    locations: Sequence[Path | BucketUrl],
    stop: Event,
    stack: ExitStack,
    *,
    is_child: bool,
) -> Callable[[], object]:
    """Return a function that imports notebook events and new objects; nothing if a collector holds the log."""
    if any(isinstance(location, Path) for location in locations):
        hint = "Pass s3://bucket/prefix, or import files with `clew pipeline run --from`."
        raise UsageError("`clew pipeline stream` does not watch files.", hint=hint)
    try:
        log = stack.enter_context(open_log_or_topic(home, kafka))
    except LogLockedError:
        if locations:
            raise
        # The collector of the parent process, which imports them, holds it always.
        if not is_child:
            _print_log_locked()
        return lambda: None
    poll_objects = _object_poller(log, locations, stop, stack)

    def import_events() -> None:
        # Repeated from the same position: an outage of the brokers does not end the stream.
        with nullcontext() if kafka is None else suppress(ClewError):
            _import_notebook_events(home, log)
        poll_objects()

    return import_events


def _object_poller(
    log: EventAppender, locations: Sequence[Path | BucketUrl], stop: Event, stack: ExitStack
) -> Callable[[], object]:
    if not locations:
        return lambda: None
    from clew.pipeline.sources.object_import import ObjectImporter

    prefixes = [item for item in locations if isinstance(item, BucketUrl)]
    importer = stack.enter_context(ObjectImporter(prefixes, log))
    # A wrong URL or missing credentials are reported at once.
    importer.check()
    return partial(importer.poll, stop.is_set)


def _import_notebook_events(home: DataDir, log: EventAppender) -> None:
    expand_abandoned(home.streams)
    import_streams(home.streams, log)
    if isinstance(log, LogWriter):
        adopt_published(log)


def _print_log_locked() -> None:
    stderr_console().print(
        "The log is locked by another process; if it is a collector, it imports notebook events too."
    )


def _metrics(home: DataDir, *, is_enabled: bool) -> list[PipelineMetrics]:
    """Return a list of one PipelineMetrics, or an empty list. Needs the extra `metrics`."""
    if not is_enabled:
        return []
    from clew.pipeline.metrics import PipelineMetrics

    return [PipelineMetrics(home)]


def _batch_progress(home: DataDir, progress: ProgressDisplay) -> BatchListener:
    """Return a listener that reports the ingested share of the log after each batch."""
    start, end, events = Checkpoint(home.checkpoint).committed_offset, end_position(home.log), 0

    def step(batch: BatchRecord) -> None:
        nonlocal events
        events += batch.events + batch.rejected + batch.duplicates
        progress.step(batch.end_offset - start, end - start, events)

    return step


def _print_stats(stats: IngestStats, rejections: list[Rejection], *, as_json: bool) -> None:
    if as_json:
        print_json({**vars(stats), "rejections": rejections})
        return
    console = stderr_console()
    skipped = f", {format_count(stats.duplicates, 'duplicate')} skipped" if stats.duplicates else ""
    batches = format_count(stats.batches, "batch", "batches")
    console.print(f"Ingested {format_count(stats.events, 'event')} in {batches}{skipped}.")
    if stats.rejected:
        console.print(
            f"{format_count(stats.rejected, 'event')} rejected, stored in the table rejected_events:", style="red"
        )
        for rejection in rejections:
            console.print(f"  {rejection.source}: {rejection.reason}, {rejection.detail}")
