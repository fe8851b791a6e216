"""`clew collect`: receive OpenLineage events over HTTP."""

from __future__ import annotations

import logging

import click

from clew.capture.streams.completion import expand_abandoned
from clew.cli.listening import ServerOptions, server_options
from clew.cli.options import home_option
from clew.cli.screen import stderr_console
from clew.collector.http import RequestLimits, create_collector
from clew.collector.log import LogWriter
from clew.home import DataDir
from clew.serving.log_lines import configure_logging
from clew.serving.quick import FastPath
from clew.serving.server import serve

_LOG = logging.getLogger("clew.collector")
_DEFAULT_COLLECT_PORT = 5000


@click.command("collect")
@server_options(_DEFAULT_COLLECT_PORT)
@click.option(
    "--max-body-mb", type=click.IntRange(1), default=256, show_default=True, help="Maximum request body size in MB."
)
@click.option(
    "--max-rate",
    type=click.FloatRange(0),
    default=0,
    show_default=True,
    help="Maximum requests per second per key or address; 0 means no limit.",
)
@click.option("--log-json", "is_json", is_flag=True, help="Write JSON lines to stderr instead of text.")
@home_option
def collect_command(*, max_body_mb: int, max_rate: float, is_json: bool, server: ServerOptions, home: DataDir) -> None:
    """Receive OpenLineage events over HTTP and append them to the log, until interrupted.

    Producers set OPENLINEAGE_URL to its address. An event that was acknowledged with 201 is on disk; `clew pipeline
    run` or `clew pipeline stream` ingests it.
    """
    authenticator = server.authenticator(home)
    limits = RequestLimits(body_bytes=max_body_mb << 20, requests_per_second=max_rate)
    configure_logging(as_json=is_json)
    console = stderr_console()
    with server.open_socket() as listener, LogWriter(home.create().log) as log:
        app = create_collector(log, limits, home.streams, authenticator, expand_abandoned)
        print_line = _LOG.info if is_json else console.print
        serve(app, listener, print_line, server.tls, FastPath(app.fast_path_handlers))
