"""`clew up`: collector, pipeline, API and page, all at once."""

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

from clew.cli.listening import Listening, listening_options
from clew.cli.options import lake_option, spark_options
from clew.cli.serve import serve_all
from clew.collector.log import LogWriter
from clew.errors import ClewError
from clew.home import Home

# Where Marquez listens, and so where examples of OpenLineage's clients send.
_PORT = 5000


@click.command("up")
@listening_options(_PORT)
@lake_option
@spark_options
def command(*, listening: Listening, home: Home, master: str, conf: dict[str, str]) -> None:
    """Take events over HTTP, turn them into tables and an index as they come, and serve page and API on one port.

    Point OPENLINEAGE_URL at the address and open it in a browser. It is `clew serve --collect` with a `clew pipeline
    stream` beside it, and ends with Ctrl-C or SIGTERM. What was acknowledged and not yet taken in waits in the log.
    """
    guard = listening.guard(home)
    # The server stops on a signal and hands it on: without this, nothing after it would be done.
    signal.signal(signal.SIGTERM, _end)
    # Before anything is started: a port in use is said at once.
    with listening.opened() as listener, LogWriter(home.create().log) as log, _pipeline_beside(home, master, conf):
        serve_all(home, log, listener, listening.tls, guard)


@contextmanager
def _pipeline_beside(home: Home, master: str, conf: Mapping[str, str]) -> Iterator[None]:
    """A stream in a process of its own, stopped at the end; should it stop by itself, so does this process."""
    # By the environment: a URL may hold a password, and command lines are for all to see.
    places = {"CLEW_LAKE": str(home.lake), "CLEW_INDEX": home.database or ""}
    settings = [f"--conf={key}={value}" for key, value in conf.items()]
    options = ["--home", str(home.root), "--master", master, *settings, "--parent", str(os.getpid())]
    # Ctrl-C is for the server, which drains first.
    stream = subprocess.Popen(
        [sys.executable, "-m", "clew", "pipeline", "stream", *options],
        env={**os.environ, **places},
        start_new_session=True,
        stdin=subprocess.DEVNULL,
    )
    is_over = threading.Event()
    threading.Thread(target=_watch, args=(stream, is_over), name="clew-up", daemon=True).start()
    try:
        yield
    finally:
        has_failed = stream.poll() is not None
        is_over.set()
        stream.terminate()
        stream.wait()
        if has_failed:
            hint = "It has said why, above; what was acknowledged is in the log."
            raise ClewError(f"The pipeline has stopped, with exit code {stream.returncode}.", hint=hint)


def _watch(stream: subprocess.Popen[bytes], is_over: threading.Event) -> None:
    stream.wait()
    if not is_over.is_set():
        os.kill(os.getpid(), signal.SIGTERM)


def _end(*_: object) -> NoReturn:
    raise click.exceptions.Exit(0)
