"""`clew pipeline`: events into tables and index."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from threading import Event
from typing import Any

import click

from clew.cli.figures import counted
from clew.cli.options import home_option, json_option, spark_options
from clew.cli.screen import print_json, progress, talk
from clew.collector.intake import take_files, take_streams
from clew.collector.log import LogWriter
from clew.home import Home
from clew.pipeline.ingest import Ingested
from clew.pipeline.rejections import last_rejections
from clew.pipeline.work import open_pipeline


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
