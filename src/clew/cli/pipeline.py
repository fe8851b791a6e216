"""`clew pipeline`: events into tables and index."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from clew.capture.streams.completion import complete_below
from clew.cli import backfill
from clew.cli.facet_order import facet_order_option
from clew.cli.figures import counted, filesize
from clew.cli.options import age, json_option, lake_option, spark_options
from clew.cli.progress import Telling
from clew.cli.screen import data, print_json, progress, talk
from clew.collector.intake import take_files, take_streams
from clew.collector.log import LogHeldError, LogWriter
from clew.collector.segments import end_position
from clew.events.facet_order import FacetOrder
from clew.events.rejection import Reason
from clew.home import Home

if TYPE_CHECKING:
    from clew.pipeline.ingest import Ingested
    from clew.pipeline.journal import TakenBatch
    from clew.pipeline.metrics import Metrics
    from clew.pipeline.replay import Replayed
    from clew.pipeline.upkeep import Upkept
    from clew.pipeline.watch import Listener

_WEEK = 7 * 24
_keep_log_option = click.option(
    "--keep-log",
    type=age,
    metavar="AGE",
    help="Remove segments of the log that are older than that, as 30d or 36h, once all of them is taken in.",
)


@click.group("pipeline")
def command() -> None:
    """Turn recorded events into tables and an index."""


command.add_command(backfill.command)


@command.command("run")
@click.option(
    "--from",
    "paths",
    multiple=True,
    type=click.Path(path_type=Path),
    help="NDJSON files, plain, .gz or .zst, or folders of them, to take in as well.",
)
@click.option(
    "--raw-only",
    "is_raw_only",
    is_flag=True,
    help="Take events in fast, without their facets: `clew pipeline backfill` fills those in.",
)
@facet_order_option("For a lake that is new; its default is received.")
@click.option(
    "--metrics-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write Prometheus metrics to this file at the end, for the textfile collector.",
)
@json_option
@lake_option
@spark_options
def run(
    paths: tuple[Path, ...],
    is_raw_only: bool,  # noqa: FBT001
    facet_order: FacetOrder | None,
    metrics_file: Path | None,
    as_json: bool,  # noqa: FBT001
    home: Home,
    master: str,
    conf: dict[str, str],
) -> None:
    """Take in all there is, then stop.

    Ends with exit code 1 if events had to be rejected: they are kept, with the reason, in the table rejected_events.
    """
    # Here, and not above: a status must not wait for Spark's modules.
    from clew.pipeline.agreement import require_log
    from clew.pipeline.rejections import last_rejections
    from clew.pipeline.work import open_pipeline

    metrics = _metrics(home, is_wanted=metrics_file is not None)
    with progress() as tell:
        tell("Reading events")
        require_log(home)
        try:
            with LogWriter(home.create().log) as log:
                complete_below(home.streams)
                take_streams(home.streams, log)
                take_files(list(paths), log, tell.step)
        except LogHeldError:
            if paths:
                raise
            _say_held()
        listeners: tuple[Listener, ...] = (_headway(home, tell), *metrics)
        with open_pipeline(
            home, say=tell, master=master, conf=conf, listeners=listeners, facet_order=facet_order
        ) as pipeline:
            tell("Taking events in")
            taken = replace(pipeline, is_raw_only=is_raw_only).take_available()
            reasons = last_rejections(pipeline.lake, taken.rejected)
    _report(taken, reasons, as_json=as_json)
    if metrics_file is not None:
        metrics[0].write(metrics_file)
    sys.exit(1 if taken.rejected else 0)


@command.command("stream")
@click.option(
    "--upkeep/--no-upkeep",
    "has_upkeep",
    default=True,
    show_default=True,
    help="Merge small files, refresh derived tables and remove old files beside the stream.",
)
@click.option(
    "--refresh-minutes",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="How often derived tables are brought up to date, at most.",
)
@_keep_log_option
@click.option("--metrics-port", type=int, help="Serve Prometheus metrics on this port; 0 picks a free one.")
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="Address that metrics are served on.")
@click.option("--parent", type=int, hidden=True, help="Stop when this process, which has started it, is gone.")
@json_option
@lake_option
@spark_options
def stream(  # noqa: PLR0913
    *,
    has_upkeep: bool,
    refresh_minutes: float,
    keep_log: timedelta | None,
    metrics_port: int | None,
    metrics_host: str,
    parent: int | None,
    as_json: bool,
    home: Home,
    master: str,
    conf: dict[str, str],
) -> None:
    """Take in what notebooks record and what is appended to the log, until stopped with Ctrl-C or SIGTERM."""
    from clew.pipeline.agreement import require_log
    from clew.pipeline.caretaker import Care
    from clew.pipeline.rejections import last_rejections
    from clew.pipeline.work import open_pipeline

    stop = Event()
    metrics = _metrics(home, is_wanted=metrics_port is not None)
    with ExitStack() as opened:
        tell = opened.enter_context(progress())
        require_log(home)
        take = _taking_streams(home, opened)

        def meanwhile() -> None:
            if parent is not None and os.getppid() != parent:
                stop.set()
            take()

        if metrics_port is not None:
            port = opened.enter_context(metrics[0].served(metrics_host, metrics_port))
            talk().print(f"Metrics at http://{metrics_host}:{port}/metrics")
        pipeline = opened.enter_context(
            open_pipeline(home, say=tell, master=master, conf=conf, listeners=tuple(metrics))
        )
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        tell("Taking events in; Ctrl-C stops")
        taken = pipeline.stream(
            stop,
            meanwhile=meanwhile,
            care=Care(refresh_seconds=60 * refresh_minutes, keep_log=keep_log) if has_upkeep else None,
            cared=metrics[0].cared if metrics else None,
        )
        reasons = last_rejections(pipeline.lake, taken.rejected)
    _report(taken, reasons, as_json=as_json)


@command.command("status")
@json_option
@lake_option
def status(as_json: bool, home: Home) -> None:  # noqa: FBT001
    """Show how far the log was taken in, what is waiting, the last batches, rejected events and sizes.

    Reads only, starts no Java, and may be asked while a pipeline is at work.
    """
    from clew.cli.status_text import batch_table, size_table, status_lines
    from clew.pipeline.status import status as look

    found = look(home)
    if as_json:
        print_json(found)
        return
    console = data()
    for line in status_lines(found):
        console.print(line)
    for table in (batch_table(found.batches), size_table(found.tables)):
        console.print()
        console.print(table)


@command.command("compact")
@click.option(
    "--retention-hours",
    type=int,
    default=_WEEK,
    show_default=True,
    help="Keep files that a version younger than this names.",
)
@click.option(
    "--drop-older-than",
    type=age,
    metavar="AGE",
    help="Drop events that were received longer ago than that, as 90d or 36h; not while a pipeline is at work.",
)
@_keep_log_option
@click.option(
    "--force",
    "is_forced",
    is_flag=True,
    help="Allow less than 24 hours: older versions can no longer be read, and queries that are running may fail.",
)
@json_option
@lake_option
@spark_options
def compact(
    retention_hours: int,
    drop_older_than: timedelta | None,
    keep_log: timedelta | None,
    is_forced: bool,  # noqa: FBT001
    as_json: bool,  # noqa: FBT001
    home: Home,
    master: str,
    conf: dict[str, str],
) -> None:
    """Merge small files of the lake, and remove those that are no longer needed.

    May be done while a pipeline is at work. Starts Spark only if derived tables have to be brought up to date.
    """
    from clew.pipeline.upkeep import upkeep

    with progress() as say:
        done = upkeep(
            home,
            retention_hours,
            drop_older_than=drop_older_than,
            keep_log=keep_log,
            is_forced=is_forced,
            say=say,
            master=master,
            conf=conf,
        )
    if as_json:
        print_json(done)
    else:
        _report_upkeep(done)


@command.command("replay")
@click.option(
    "--reason",
    type=click.Choice([reason.value for reason in Reason]),
    help="Only events that were rejected for this reason.",
)
@json_option
@lake_option
def replay(reason: str | None, as_json: bool, home: Home) -> None:  # noqa: FBT001
    """Try rejected events again, after clew or its settings were mended.

    Those that can be read now are appended to the log, and the next run takes them in.
    """
    from clew.pipeline.replay import replay as again

    done = again(home, reason)
    if as_json:
        print_json(done)
    else:
        _report_replay(done)


def _taking_streams(home: Home, opened: ExitStack) -> Callable[[], object]:
    """What takes in what notebooks have written; nothing if a collector holds the log, which does it."""
    try:
        log = opened.enter_context(LogWriter(home.create().log))
    except LogHeldError:
        _say_held()
        return lambda: None

    def take() -> None:
        complete_below(home.streams)
        take_streams(home.streams, log)

    return take


def _say_held() -> None:
    talk().print("Another process writes to the log: a collector also takes what notebooks have written.")


def _metrics(home: Home, *, is_wanted: bool) -> list[Metrics]:
    """One, if it is wanted: it needs a package that others can do without."""
    if not is_wanted:
        return []
    from clew.pipeline.metrics import Metrics

    return [Metrics(home)]


def _headway(home: Home, tell: Telling) -> Listener:
    """Tells after each batch how much of what the log holds now was taken in."""
    from clew.pipeline.checkpoint import Checkpoint

    start, end, events = Checkpoint(home.checkpoint).position, end_position(home.log), 0

    def step(batch: TakenBatch) -> None:
        nonlocal events
        events += batch.events + batch.rejected + batch.repeated
        tell.step(batch.position - start, end - start, events)

    return step


def _report(taken: Ingested, reasons: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_json({**vars(taken), "rejections": reasons})
        return
    console = talk()
    again = f", {counted(taken.repeated, 'event')} known already" if taken.repeated else ""
    console.print(f"{counted(taken.events, 'event')} taken in, in {counted(taken.batches, 'batch', 'batches')}{again}.")
    if taken.rejected:
        console.print(f"{counted(taken.rejected, 'event')} rejected, kept in the table rejected_events:", style="red")
        for reason in reasons:
            console.print(f"  {reason['source']}: {reason['reason']}, {reason['detail']}")


def _report_upkeep(done: Upkept) -> None:
    console = talk()
    before, after = (sum(files[place] for files in done.merged.values()) for place in (0, 1))
    count, size = (sum(files[place] for files in done.removed.values()) for place in (0, 1))
    dropped = done.dropped
    if dropped.rows or dropped.segments:
        rows, segments = counted(sum(dropped.rows.values()), "row"), counted(dropped.segments, "segment")
        console.print(f"{rows} and {segments} of the log dropped ({filesize(dropped.segment_bytes)}): too old.")
    console.print(f"{counted(before, 'file')} of event tables became {after:,}.")
    console.print(f"{counted(count, 'file')} removed that no kept version names, {filesize(size)}.")
    if done.is_refreshed:
        console.print("Derived tables were brought up to date.")
    if done.is_left_to_pipeline:
        console.print("Derived tables are older than the events: the pipeline at work refreshes them when it stops.")


def _report_replay(done: Replayed) -> None:
    console = talk()
    then = ": run `clew pipeline run` to take them in" if done.replayed else ""
    console.print(f"{counted(done.replayed, 'rejected event')} can be read now{then}.")
    for count, words in (
        (done.still_rejected, "cannot be read yet, left as they are"),
        (done.waiting_already, "replayed before, waiting in the log"),
        (done.taken_already, "taken in before"),
    ):
        if count:
            console.print(f"{count:,} {words}.")
