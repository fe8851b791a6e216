"""`clew collect`: take events over HTTP, from whatever speaks OpenLineage."""

from __future__ import annotations

import click

from clew.api.server import serve
from clew.cli.options import home_option
from clew.cli.screen import talk
from clew.collector.http import Limits, create_collector
from clew.collector.log import LogWriter
from clew.errors import UsageError
from clew.home import Home

_PORT = 5000
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@click.command("collect")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on: this machine only.")
@click.option("--port", type=int, default=_PORT, show_default=True, help="Port to listen on; 0 picks a free one.")
@click.option("--max-body-mb", type=click.IntRange(1), default=256, show_default=True, help="Largest body to take.")
@home_option
def command(host: str, port: int, max_body_mb: int, home: Home) -> None:
    """Take OpenLineage events over HTTP into the log, until interrupted.

    Any producer can send here: set its OPENLINEAGE_URL to the address. An event that was answered with 201 is on disk;
    `clew pipeline run` or `clew pipeline stream` takes it in.
    """
    if host not in _LOOPBACK:
        raise UsageError(
            f"{host} can be reached from other machines, and there are no keys to tell who may send.",
            hint="Listen on 127.0.0.1, behind a proxy that knows its users.",
        )
    console = talk()
    with LogWriter(home.create().log) as log:
        app = create_collector(log, Limits(body_bytes=max_body_mb << 20), home.streams)
        serve(app, host, port, say=lambda text: console.print(text, markup=False, soft_wrap=True))
