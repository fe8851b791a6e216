"""`clew collect`: take events over HTTP, from whatever speaks OpenLineage."""

from __future__ import annotations

import logging

import click

from clew.capture.streams.completion import complete_below
from clew.cli.listening import Listening, listening_options
from clew.cli.options import home_option
from clew.cli.screen import talk
from clew.collector.http import Limits, create_collector
from clew.collector.log import LogWriter
from clew.home import Home
from clew.serving.log_lines import log_to_stderr
from clew.serving.quick import Quick
from clew.serving.server import serve

_LOG = logging.getLogger("clew.collector")
_PORT = 5000


@click.command("collect")
@listening_options(_PORT)
@click.option("--max-body-mb", type=click.IntRange(1), default=256, show_default=True, help="Largest body to take.")
@click.option(
    "--max-rate",
    type=click.FloatRange(0),
    default=0,
    show_default=True,
    help="Requests a second that one key or address may send; 0 is no limit.",
)
@click.option("--log-json", "is_json", is_flag=True, help="Write JSON lines to stderr instead of text.")
@home_option
def command(*, max_body_mb: int, max_rate: float, is_json: bool, listening: Listening, home: Home) -> None:
    """Take OpenLineage events over HTTP into the log, until interrupted.

    Any producer can send here: set its OPENLINEAGE_URL to the address. An event that was answered with 201 is on disk;
    `clew pipeline run` or `clew pipeline stream` takes it in.
    """
    guard = listening.guard(home)
    limits = Limits(body_bytes=max_body_mb << 20, requests_per_second=max_rate)
    log_to_stderr(as_json=is_json)
    console = talk()
    with listening.opened() as listener, LogWriter(home.create().log) as log:
        app = create_collector(log, limits, home.streams, guard, complete_below)
        say = _LOG.info if is_json else console.print
        serve(app, listener, say, listening.tls, Quick(app.takes))
