"""`clew pipeline` and `clew index`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import click

from clew.capture.emit.worker import expand_abandoned
from clew.cli.options import facet_order_option, json_flag, json_option, lake_option, parse_age, spark_options
from clew.cli.output import format_bytes, format_count, print_json, show_progress, stderr_console, stdout_console
from clew.collector.file_import import import_files, import_streams, pending_stream_bytes
from clew.config import resolve_setting
from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.eventlog.segments import end_position
from clew.eventlog.writer import LogLockedError, LogWriter
from clew.events.decoding import RejectionReason
from clew.events.facets import FacetOrder
from clew.pipeline.checkpoint import open_log
from clew.pipeline.supervisor import exit_with_parent

if TYPE_CHECKING:
    from clew.cli.progress import ProgressDisplay
    from clew.lake.history import Rejection
    from clew.pipeline.checkpoint import BatchRecord
    from clew.pipeline.ingest import IngestStats
    from clew.pipeline.maintenance import MaintenanceResult
    from clew.pipeline.metrics import PipelineMetrics
    from clew.pipeline.own_lineage import JobKind, OwnLineage
    from clew.pipeline.pipeline import BatchListener
    from clew.pipeline.reprocess import BackfillProgress, ReplayStats
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


_WEEK_HOURS = 7 * 24
_log_retention_option = click.option(
    "--log-retention",
    type=parse_age,
    metavar="AGE",
    help="Delete log segments older than this, such as 30d or 36h, once they are ingested.",
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
    "paths",
    multiple=True,
    type=click.Path(path_type=Path),
    help="NDJSON files (plain, .gz or .zst) or directories of them to ingest as well.",
)
@click.option(
    "--raw-only",
    "is_raw_only",
    is_flag=True,
    help="Ingest events only; fill the facet tables later with `clew pipeline backfill`.",
)
@facet_order_option("Only for a new lake; default: received.")
@click.option(
    "--metrics-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write Prometheus metrics to this file, for the textfile collector.",
)
@_own_lineage_option
@json_flag
@lake_option
@spark_options
def pipeline_run(  # noqa: PLR0913, PLR0917
    paths: tuple[Path, ...],
    is_raw_only: bool,  # noqa: FBT001
    facet_order: FacetOrder | None,
    metrics_file: Path | None,
    has_own_lineage: bool,  # noqa: FBT001
    as_json: bool,  # noqa: FBT001
    home: DataDir,
    master: str,
    conf: dict[str, str],
) -> None:
    """Ingest all available events, then stop.

    Exits with 1 if events were rejected. They are stored with the reason in the table rejected_events.
    """
    # Imported here: `clew pipeline status` must not load Spark.
    from clew.lake.history import recent_rejections
    from clew.pipeline.pipeline import open_pipeline
    from clew.pipeline.preflight import check_log_offsets

    metrics = _metrics(home, is_enabled=metrics_file is not None)
    with show_progress() as progress:
        progress("Reading events")
        check_log_offsets(home, progress)
        try:
            with open_log(home) as log:
                _import_notebook_events(home, log)
                import_files(list(paths), log, progress.step)
        except LogLockedError:
            if paths:
                raise
            _print_log_locked()
        own_lineage = _own_lineage(home, "run", is_enabled=has_own_lineage)
        listeners: tuple[BatchListener, ...] = (_batch_progress(home, progress), *metrics, *own_lineage)
        with open_pipeline(
            home, on_progress=progress, master=master, conf=conf, listeners=listeners, facet_order=facet_order
        ) as pipeline:
            progress("Ingesting events")
            runner = replace(pipeline, is_raw_only=is_raw_only)
            with _reported(own_lineage):
                stats = runner.ingest_available()
            if own_lineage and _import_if_unlocked(home):
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
@click.option("--metrics-port", type=int, help="Serve /metrics, /healthz and /readyz on this port; 0 picks a free one.")
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="Address to serve metrics on.")
@_own_lineage_option
@click.option("--exit-with-parent", "is_child", is_flag=True, hidden=True, help="Exit when stdin is closed.")
@json_flag
@lake_option
@spark_options
def pipeline_stream(  # noqa: PLR0913
    *,
    has_maintenance: bool,
    refresh_minutes: float,
    log_retention: timedelta | None,
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
    refreshed then.
    """
    from clew.lake.history import recent_rejections
    from clew.pipeline.maintenance import MaintenanceConfig
    from clew.pipeline.pipeline import open_pipeline
    from clew.pipeline.preflight import check_log_offsets

    if is_child:
        exit_with_parent()
    stop, is_started = Event(), Event()
    metrics = _metrics(home, is_enabled=metrics_port is not None)
    with ExitStack() as stack:
        progress = stack.enter_context(show_progress())
        check_log_offsets(home, progress)
        import_events = _stream_importer(home, stack)

        if metrics_port is not None:
            check_ready = partial(_check_started, is_started)
            port = stack.enter_context(metrics[0].serve(metrics_host, metrics_port, check_ready))
            stderr_console().print(f"Metrics at http://{metrics_host}:{port}/metrics")
        own_lineage = _own_lineage(home, "stream", is_enabled=has_own_lineage)
        listeners: tuple[BatchListener, ...] = (*metrics, *own_lineage)
        pipeline = stack.enter_context(
            open_pipeline(home, on_progress=progress, master=master, conf=conf, listeners=listeners)
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
    console.print(f"Compacted {format_count(before, 'file')} of event tables into {after:,}.")
    console.print(f"Removed {format_count(count, 'unreferenced file')} ({format_bytes(size)}).")
    if result.is_refreshed:
        console.print("Refreshed derived tables.")
    if result.is_refresh_deferred:
        console.print("Derived tables are stale; the running pipeline refreshes them.")


@pipeline_group.command("compact")
@click.option(
    "--retention-hours",
    type=int,
    default=_WEEK_HOURS,
    show_default=True,
    help="Keep files that are referenced by table versions younger than this.",
)
@click.option(
    "--drop-older-than",
    type=parse_age,
    metavar="AGE",
    help="Delete events received longer ago than this, such as 90d or 36h. Not possible while a pipeline is running.",
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
def pipeline_compact(
    retention_hours: int,
    drop_older_than: timedelta | None,
    log_retention: timedelta | None,
    is_forced: bool,  # noqa: FBT001
    home: DataDir,
    master: str,
    conf: dict[str, str],
) -> MaintenanceResult:
    """Compact small files of the lake and vacuum unreferenced files.

    Can be used while a pipeline is running. Starts Spark only if derived tables must be refreshed.
    """
    from clew.pipeline.maintenance import run_maintenance

    with show_progress() as progress:
        return run_maintenance(
            home,
            retention_hours,
            drop_older_than=drop_older_than,
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
@json_option(_print_replay)
@lake_option
def pipeline_replay(reason: str | None, home: DataDir) -> ReplayStats:
    """Retry rejected events after an upgrade or a fix.

    Events that are valid now are appended to the log, and the next run ingests them.
    """
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


def _import_if_unlocked(home: DataDir) -> bool:
    """Import event files into the log; return False if a collector holds the log, which imports them."""
    try:
        with open_log(home) as log:
            import_streams(home.streams, log)
    except LogLockedError:
        return False
    return True


def _stream_importer(home: DataDir, stack: ExitStack) -> Callable[[], object]:
    """Return a function that imports notebook events into the log; it does nothing if a collector holds the log."""
    try:
        log = stack.enter_context(open_log(home))
    except LogLockedError:
        _print_log_locked()
        return lambda: None

    return partial(_import_notebook_events, home, log)


def _import_notebook_events(home: DataDir, log: LogWriter) -> None:
    expand_abandoned(home.streams)
    import_streams(home.streams, log)


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
    from clew.pipeline.checkpoint import Checkpoint

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


@click.group("index")
def index_group() -> None:
    """Manage the query index."""


@index_group.command("rebuild")
@facet_order_option("Changes the setting of the lake, and rewrites derived tables.")
@json_option(lambda result: stderr_console().print(f"Rebuilt the index: {result['events']:,} events."))
@lake_option
@spark_options
def index_rebuild(facet_order: FacetOrder | None, home: DataDir, master: str, conf: dict[str, str]) -> dict[str, int]:
    """Rebuild the index from the lake. The old index is used until the new one is complete."""
    from clew.pipeline.pipeline import open_pipeline

    _prepare_rebuild(home, facet_order)
    with (
        show_progress() as progress,
        open_pipeline(home, on_progress=progress, master=master, conf=conf, rebuild=True) as pipeline,
    ):
        count = pipeline.index.event_count
        if facet_order is not None:
            pipeline.refresh()
    return {"events": count}


def _prepare_rebuild(home: DataDir, facet_order: FacetOrder | None) -> None:
    from clew.index.backends import open_backend
    from clew.lake.lake import Lake
    from clew.lake.storage import open_storage
    from clew.pipeline.locks import BACKFILL_LOCK, PIPELINE_LOCK, acquire_lock

    if not open_storage(home.lake).has_folder():
        raise ClewError(f"There is no lake at {home.lake}.", hint="Run `clew pipeline run` first.")
    with acquire_lock(home.lake / PIPELINE_LOCK), acquire_lock(home.lake / BACKFILL_LOCK, "backfill"):
        lake = Lake(home.lake)
        lake.create_or_validate()
        if facet_order is not None:
            # Remove the index first: it was built with the old order.
            open_backend(home.index).remove()
            lake.set_facet_order(facet_order)
