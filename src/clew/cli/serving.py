"""Compose the API, the web UI and the collector; `clew serve`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from socket import socket

import click
from prometheus_client import ProcessCollector
from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from clew.api.app import CollectorDispatch, create_app
from clew.api.marquez.app import MarquezApi, MarquezMiddleware
from clew.api.marquez.http import MAX_WAIT_SECONDS
from clew.api.marquez.revivals import Revivals
from clew.api.marquez.write_handlers import StoreEvent, create_log_store
from clew.api.metrics import IndexMetrics
from clew.api.middleware import AuthMiddleware, authenticated_read
from clew.api.ui_api import UiDependencies, ui_routes
from clew.api.v2.routes import operation_routes
from clew.capture.emit.worker import expand_abandoned
from clew.cli.commands.watch import background_watcher, webhook_options
from clew.cli.options import lake_option
from clew.cli.output import stderr_console
from clew.cli.server_options import ServerOptions, server_options
from clew.collector.app import RequestLimits, create_collector
from clew.config import DEFAULT_PORT
from clew.data_dir import DataDir
from clew.errors import UsageError
from clew.eventlog.writer import LogWriter
from clew.pipeline.checkpoint import open_log
from clew.pipeline.metrics import LagMetrics
from clew.pipeline.status import PipelineStatus, read_status, without_names
from clew.pipeline.supervisor import SupervisorState
from clew.query.context import QueryResources
from clew.server.auth import Authenticator
from clew.server.fast_path import FastPath, GetHandler
from clew.server.metrics import ResponseMetrics, create_registry, monitoring_routes
from clew.server.run import serve
from clew.watch.metrics import WatchMetrics
from clew.watch.options import WatchOptions
from clew.watch.watcher import Watcher

_READ_WAIT = "CLEW_READ_WAIT"


@click.command("serve")
@click.option("--collect", is_flag=True, help="Also receive OpenLineage events, as `clew collect` does.")
@server_options(DEFAULT_PORT)
@webhook_options("webhook-")
@lake_option
def serve_command(*, collect: bool, server: ServerOptions, watch: WatchOptions, home: DataDir) -> None:
    """Serve the web UI and the API until interrupted."""
    authenticator = server.authenticator(home)
    with (
        server.open_socket() as listener,
        background_watcher(home, watch, stderr_console().print) as watcher,
        ExitStack() as stack,
    ):
        if collect:
            serve_all(home, stack.enter_context(open_log(home)), listener, server, authenticator, watcher=watcher)
            return
        index, responses = IndexMetrics(home.index), ResponseMetrics()
        registry = create_registry(responses, index, *_watch_metrics(watcher))
        app, read = build_app(home, routes=monitoring_routes(registry, authenticator, index.check_ready))
        fast_path = FastPath(get_handler=responses.measure_fast(authenticated_read(read, authenticator)))
        guarded = responses.measure(AuthMiddleware(app, authenticator, partial(build_limited_app, home)))
        serve(guarded, listener, stderr_console().print, server.tls, fast_path, server.policy)


def serve_all(
    home: DataDir,
    log: LogWriter,
    listener: socket,
    server: ServerOptions,
    authenticator: Authenticator,
    read_pipeline_state: Callable[[], SupervisorState] | None = None,
    watcher: Watcher | None = None,
) -> None:
    """Serve the web UI, the API and the collector on one port until interrupted."""
    limits, responses = RequestLimits(accepts_invalid=server.accepts_invalid), ResponseMetrics()
    metrics = [
        responses,
        IndexMetrics(home.index),
        LagMetrics(home),
        ProcessCollector(registry=None),
        *_watch_metrics(watcher),
    ]
    collector = create_collector(
        log, limits, home.streams, authenticator, expand_abandoned, read_pipeline_state, metrics
    )
    revivals = Revivals()
    api, read = build_app(home, lambda event: collector.appender.append([event]), revivals=revivals)
    collector.appender.find_companions = revivals.annotations_for
    guarded = AuthMiddleware(api, authenticator, partial(build_limited_app, home))
    app = CollectorDispatch(responses.measure(guarded), collector, guarded.close)
    read_fast = responses.measure_fast(authenticated_read(read, authenticator))
    fast_path = FastPath(collector.fast_path_handlers, read_fast)
    serve(app, listener, stderr_console().print, server.tls, fast_path, server.policy)


def _read_wait() -> float:
    """Return the seconds that lists and graphs of the Marquez API wait for the index."""
    text = os.environ.get(_READ_WAIT, "").strip()
    try:
        return min(max(0.0, float(text or 0)), MAX_WAIT_SECONDS)
    except ValueError:
        raise UsageError(f"{_READ_WAIT}={text!r} is not a number of seconds.") from None


def _watch_metrics(watcher: Watcher | None) -> list[WatchMetrics]:
    return [] if watcher is None else [WatchMetrics(watcher)]


def build_read_app(home: DataDir) -> Starlette:
    """Build the application that reads the index and lake of a data directory."""
    return build_app(home)[0]


def build_app(
    home: DataDir,
    store: StoreEvent | None = None,
    routes: Sequence[BaseRoute] = (),
    revivals: Revivals | None = None,
) -> tuple[Starlette, GetHandler]:
    """Build the application of a data directory, and its handler of the fast path.

    `store` appends events to the log; by default the log is opened for each write. `routes` are additional, and
    `revivals` gets what the API deletes.
    """
    resources = QueryResources(home.index, home.lake)
    resources.preload()
    if revivals is not None:
        # In the background, because a database may be unreachable.
        threading.Thread(target=revivals.load, args=(resources,), name="clew-revivals", daemon=True).start()
    return _build_app(home, resources, store, routes, revivals)


def build_limited_app(home: DataDir, namespaces: tuple[str, ...]) -> tuple[ASGIApp, Callable[[], None]]:
    """Build the application for keys limited to namespaces with these prefixes, and a function that closes it."""
    resources = QueryResources(home.index, home.lake, namespaces=namespaces)
    return _build_app(home, resources)[0], resources.close


def _build_app(
    home: DataDir,
    resources: QueryResources,
    store: StoreEvent | None = None,
    more_routes: Sequence[BaseRoute] = (),
    revivals: Revivals | None = None,
) -> tuple[Starlette, GetHandler]:
    def status() -> PipelineStatus:
        return without_names(read_status(home)) if resources.namespaces else read_status(home)

    dependencies = UiDependencies(resources, home.lake, status)
    store_event = store or create_log_store(home.log)
    is_collecting, read_wait = store is not None, _read_wait()
    marquez = MarquezApi(resources, home.log, store_event, revivals, is_collecting=is_collecting, read_wait=read_wait)
    routes = [*operation_routes(resources), *ui_routes(dependencies), *more_routes]
    app = create_app(routes, [resources.close])
    app.add_middleware(MarquezMiddleware, marquez=marquez)
    return app, marquez.handle_fast
