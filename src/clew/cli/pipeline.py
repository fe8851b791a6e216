"""`clew pipeline`: events into tables and index."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from clew.cli.figures import counted, filesize
from clew.cli.options import home_option, json_option, spark_options
from clew.cli.screen import data, print_json, progress, talk
from clew.collector.intake import take_files, take_streams
from clew.collector.log import LogWriter
from clew.events.rejection import Reason
from clew.home import Home

if TYPE_CHECKING:
    from clew.pipeline.ingest import Ingested
    from clew.pipeline.replay import Replayed
    from clew.pipeline.upkeep import Upkept

_WEEK = 7 * 24


@click.group("pipeline")
def command() -> None:
    """Turn recorded events into tables and an index."""


@command.command("run")
@click.option(
    "--from",
    "paths",
    multiple=True,
    type=click.Path(path_type=Path),
    help="NDJSON files or folders to take in as well.",
)
@json_option
@home_option
@spark_options
def run(paths: tuple[Path, ...], as_json: bool, home: Home, master: str, conf: dict[str, str]) -> None:  # noqa: FBT001
    """Take in all there is, then stop.

    Ends with exit code 1 if events had to be rejected: they are kept, with the reason, in the table rejected_events.
    """
    # Here, and not above: a status must not wait for Spark's modules.
    from clew.pipeline.rejections import last_rejections
    from clew.pipeline.work import open_pipeline

    with progress() as say:
        say("Reading events")
        with LogWriter(home.create().log) as log:
            take_streams(home.streams, log)
            take_files(list(paths), log)
        with open_pipeline(home, say=say, master=master, conf=conf) as pipeline:
            say("Taking events in")
            taken = pipeline.take_available()
            reasons = last_rejections(pipeline.lake, taken.rejected)
    _report(taken, reasons, as_json=as_json)
    sys.exit(1 if taken.rejected else 0)


@command.command("stream")
@json_option
@home_option
@spark_options
def stream(as_json: bool, home: Home, master: str, conf: dict[str, str]) -> None:  # noqa: FBT001
    """Take in what notebooks record and what is appended to the log, until stopped with Ctrl-C or SIGTERM."""
    from clew.pipeline.rejections import last_rejections
    from clew.pipeline.work import open_pipeline

    stop = Event()
    with (
        progress() as say,
        LogWriter(home.create().log) as log,
        open_pipeline(home, say=say, master=master, conf=conf) as pipeline,
    ):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        say("Taking events in; Ctrl-C stops")
        taken = pipeline.stream(stop, meanwhile=lambda: take_streams(home.streams, log))
        reasons = last_rejections(pipeline.lake, taken.rejected)
    _report(taken, reasons, as_json=as_json)


@command.command("status")
@json_option
@home_option
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
    "--force",
    "is_forced",
    is_flag=True,
    help="Allow less than 24 hours: older versions can no longer be read, and queries that are running may fail.",
)
@json_option
@home_option
@spark_options
def compact(
    retention_hours: int,
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
        done = upkeep(home, retention_hours, is_forced=is_forced, say=say, master=master, conf=conf)
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
@home_option
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
