"""`clew up`: run the collector, pipeline, API and web UI together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn

import click

from clew.cli.listening import ServerOptions, server_options
from clew.cli.options import lake_option, spark_options
from clew.cli.serve import serve_all
from clew.collector.log import LogWriter
from clew.errors import ClewError
from clew.home import DataDir

# Marquez's port, which the examples of OpenLineage clients use.
_DEFAULT_UP_PORT = 5000


@click.command("up")
@server_options(_DEFAULT_UP_PORT)
@lake_option
@spark_options
def up_command(*, server: ServerOptions, home: DataDir, master: str, conf: dict[str, str]) -> None:
    """Run the collector, pipeline, API and web UI together, with one port.

    Producers set OPENLINEAGE_URL to its address; the web UI has the same address. Equivalent to `clew serve --collect`
    and `clew pipeline stream`. Ctrl-C or SIGTERM stops it. Acknowledged events that are not ingested stay in the log.
    """
    authenticator = server.authenticator(home)
    # uvicorn raises the signal again after its shutdown; without a handler the pipeline would not be stopped.
    signal.signal(signal.SIGTERM, _exit)
    # Bind the port before anything is started, so that a port in use is reported at once.
    with (
        server.open_socket() as listener,
        LogWriter(home.create().log) as log,
        _run_pipeline_process(home, master, conf),
    ):
        serve_all(home, log, listener, server.tls, authenticator)


@contextmanager
def _run_pipeline_process(home: DataDir, master: str, conf: Mapping[str, str]) -> Iterator[None]:
    """Run `clew pipeline stream` in a child process. If it exits, this process stops too."""
    # Passed in the environment: a URL may contain a password, and command lines are visible to all users.
    locations = {"CLEW_LAKE": str(home.lake), "CLEW_INDEX": home.database_url or ""}
    settings = [f"--conf={key}={value}" for key, value in conf.items()]
    options = ["--home", str(home.root), "--master", master, *settings, "--parent", str(os.getpid())]
    # In its own session: Ctrl-C must reach only the server, which drains first.
    stream = subprocess.Popen(
        [sys.executable, "-m", "clew", "pipeline", "stream", *options],
        env={**os.environ, **locations},
        start_new_session=True,
        stdin=subprocess.DEVNULL,
    )
    is_stopping = threading.Event()
    threading.Thread(target=_watch_pipeline, args=(stream, is_stopping), name="clew-up", daemon=True).start()
    try:
        yield
    finally:
        has_failed = stream.poll() is not None
        is_stopping.set()
        stream.terminate()
        stream.wait()
        if has_failed:
            hint = "See its error message above. Acknowledged events are in the log."
            raise ClewError(f"The pipeline exited with code {stream.returncode}.", hint=hint)


def _watch_pipeline(stream: subprocess.Popen[bytes], is_stopping: threading.Event) -> None:
    stream.wait()
    if not is_stopping.is_set():
        os.kill(os.getpid(), signal.SIGTERM)


def _exit(*_: object) -> NoReturn:
    raise click.exceptions.Exit(0)
