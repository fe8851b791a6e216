"""`clew collect`, `up`, `mcp` and `keys`."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, cast

import click

from clew.capture.emit.worker import expand_abandoned
from clew.cli.commands.watch import background_watcher, webhook_options
from clew.cli.options import (
    home_option,
    index_option,
    json_flag,
    json_option,
    kafka_options,
    lake_option,
    spark_options,
)
from clew.cli.output import new_table, print_json, stderr_console, stdout_console
from clew.cli.server_options import ServerOptions, server_options
from clew.data_dir import DataDir, IndexLocation
from clew.errors import UsageError
from clew.pipeline.checkpoint import open_log, open_log_or_topic
from clew.server.auth import KeyFile, Scope
from clew.server.run import listen, listener_url
from clew.watch.options import WatchOptions

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer
    from starlette.applications import Starlette
    from starlette.types import ASGIApp

    from clew.kafka.config import KafkaConfig
    from clew.pipeline.supervisor import PipelineSupervisor

_LOG = logging.getLogger("clew.collector")
# Marquez's port, which the examples of OpenLineage clients use.
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
@kafka_options
@click.option("--log-json", "is_json", is_flag=True, help="Write JSON lines to stderr instead of text.")
@home_option
def collect_command(
    *,
    max_body_mb: int,
    max_rate: float,
    kafka: KafkaConfig | None,
    is_json: bool,
    server: ServerOptions,
    home: DataDir,
) -> None:
    """Receive OpenLineage events over HTTP and append them to the log, until interrupted.

    Producers set OPENLINEAGE_URL to its address. An event that was acknowledged with 201 is on disk; `clew pipeline
    run` or `clew pipeline stream` ingests it. With --kafka, events are produced to the topic instead, and acknowledged
    when all in-sync replicas have them.
    """
    # Imported here, as in the other commands of this module: each needs only its own part of the server.
    from clew.collector.app import RequestLimits, create_collector
    from clew.server.fast_path import FastPath
    from clew.server.run import configure_logging, serve

    authenticator = server.authenticator(home)
    configure_logging(as_json=is_json)
    console = stderr_console()
    with server.open_socket() as listener, open_log_or_topic(home, kafka) as log:
        max_bytes = max_body_mb << 20
        if kafka is not None:
            from clew.kafka.producer import read_max_event_bytes

            max_bytes = min(max_bytes, read_max_event_bytes(kafka))
        limits = RequestLimits(max_bytes, max_rate, server.accepts_invalid)
        app = create_collector(log, limits, home.streams, authenticator, expand_abandoned)
        print_line = _LOG.info if is_json else console.print
        serve(app, listener, print_line, server.tls, FastPath(app.fast_path_handlers), server.policy)


@click.command("up")
@server_options(_DEFAULT_COLLECT_PORT)
@webhook_options("webhook-")
@lake_option
@spark_options
def up_command(*, server: ServerOptions, watch: WatchOptions, home: DataDir, master: str, conf: dict[str, str]) -> None:
    """Run the collector, pipeline, API and web UI together, with one port.

    Producers set OPENLINEAGE_URL to its address; the web UI has the same address. Equivalent to `clew serve --collect`
    and `clew pipeline stream`. If the pipeline ends, it is restarted, and events are still collected. Ctrl-C or SIGTERM
    stops it. Acknowledged events that are not ingested stay in the log.
    """
    from clew.cli.serving import serve_all

    authenticator = server.authenticator(home)
    # uvicorn raises the signal again after its shutdown; without a handler the pipeline would not be stopped.
    signal.signal(signal.SIGTERM, _exit)
    # Bind the port before anything is started, so that a port in use is reported at once.
    with (
        server.open_socket() as listener,
        open_log(home) as log,
        _create_supervisor(home, master, conf) as supervisor,
        background_watcher(home, watch, stderr_console().print) as watcher,
    ):
        serve_all(home, log, listener, server, authenticator, lambda: supervisor.state, watcher)


def _create_supervisor(home: DataDir, master: str, conf: Mapping[str, str]) -> PipelineSupervisor:
    from clew.pipeline.supervisor import PipelineSupervisor

    # Passed in the environment: a URL may contain a password, and command lines are visible to all users.
    locations = {"CLEW_LAKE": str(home.lake), "CLEW_INDEX": home.database_url or ""}
    settings = [f"--conf={key}={value}" for key, value in conf.items()]
    options = ["--home", str(home.root), "--master", master, *settings, "--exit-with-parent"]
    command = [sys.executable, "-m", "clew", "pipeline", "stream", *options]
    return PipelineSupervisor(home, command, {**os.environ, **locations}, lambda: os.kill(os.getpid(), signal.SIGTERM))


def _exit(*_: object) -> NoReturn:
    raise click.exceptions.Exit(0)


_DEFAULT_MCP_PORT = 8778
_MCP_HOST = "127.0.0.1"
_MCP_PATH = "/mcp"


@click.command("mcp")
@click.option("--require-key", "is_key_required", is_flag=True, help="With --http: require an API key, also locally.")
@click.option("--http", "is_http", is_flag=True, help="Listen on a local port instead of stdin and stdout.")
@click.option(
    "--port", type=int, default=None, help=f"Port for --http; 0 picks a free one. Default: {_DEFAULT_MCP_PORT}."
)
@index_option
def mcp_command(is_http: bool, is_key_required: bool, port: int | None, home: DataDir) -> None:  # noqa: FBT001
    """Run an MCP server with read-only tools for AI agents.

    Agents start it themselves; add it to their configuration:

        {"command": "clew", "args": ["mcp"]}

    It reads the data directory with the rights of its user. With --http, it listens on 127.0.0.1; with --require-key,
    agents send a key of `clew keys add NAME --scope read` as `Authorization: Bearer KEY`.
    """
    from clew.mcp.server import create_server

    server = create_server(home.index, home.lake)
    if is_http:
        keys = KeyFile(home.keys) if is_key_required else None
        _serve_http(server, home.index, _DEFAULT_MCP_PORT if port is None else port, keys)
        return
    if port is not None or is_key_required:
        option = "--require-key" if port is None else "--port"
        raise UsageError(f"{option} requires --http.", hint=f"Pass --http as well, or omit {option}.")
    if sys.stdin.isatty():
        stderr_console().print(
            "Waiting for an MCP client on stdin (Ctrl-C stops). Agents start this command themselves."
        )
    # The SDK reads stdin in a thread that only EOF wakes, so Ctrl-C must end the process. It holds no state.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    server.run("stdio")


def _serve_http(server: MCPServer[None], index: IndexLocation, port: int, keys: KeyFile | None) -> None:
    import uvicorn

    # Stateless: calls share nothing. The SDK rejects requests with another Host header.
    app = server.streamable_http_app(streamable_http_path=_MCP_PATH, stateless_http=True, host=_MCP_HOST)
    measured = _add_monitoring(app, index, keys)
    with listen(_MCP_HOST, port) as listener:
        stderr_console().print(
            f"Serving MCP on {listener_url(listener).rstrip('/')}{_MCP_PATH} (Ctrl-C stops)", markup=False
        )
        uvicorn.Server(uvicorn.Config(measured, log_level="warning", access_log=False)).run(sockets=[listener])


def _add_monitoring(app: Starlette, index: IndexLocation, keys: KeyFile | None) -> ASGIApp:
    """Require keys, and add `/healthz`, `/readyz` and `/metrics` if the extra `server` is installed."""
    from starlette.applications import Starlette
    from starlette.routing import Mount, Route

    from clew.server.auth import Authenticator

    # Without keys it listens on loopback only, so no key is needed.
    authenticator, protected = Authenticator(keys), cast("ASGIApp", app)
    if keys is not None:
        from clew.api.middleware import RequireKeyMiddleware

        protected = RequireKeyMiddleware(app, authenticator)
    try:
        from clew.api.metrics import IndexMetrics
        from clew.server.metrics import ResponseMetrics, create_registry, monitoring_routes
        from clew.server.run import healthz
    except ModuleNotFoundError:
        return protected
    index_metrics, responses = IndexMetrics(index), ResponseMetrics()
    registry = create_registry(responses, index_metrics)
    routes = [
        Route("/healthz", healthz),
        *monitoring_routes(registry, authenticator, index_metrics.check_ready),
        Mount("/", protected),
    ]
    return responses.measure(Starlette(routes=routes, lifespan=app.router.lifespan_context))


@click.group("keys")
def keys_group() -> None:
    """Manage API keys."""


@keys_group.command("add")
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice([scope.value for scope in Scope]),
    default=(Scope.WRITE.value,),
    show_default=True,
    help="Scope: write (send events), read (query), admin; may be repeated.",
)
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="PREFIX",
    help="Limit the key to sending and reading namespaces with this prefix; may be repeated.",
)
@json_flag
@home_option
def keys_add(name: str, scopes: tuple[str, ...], namespaces: tuple[str, ...], as_json: bool, home: DataDir) -> None:  # noqa: FBT001
    """Create a key and print it. Only a hash of it is stored."""
    key = KeyFile(home.create().keys).add(name, [Scope(scope) for scope in scopes], namespaces)
    stderr_console().print("Save this key; it will not be shown again.")
    if as_json:
        print_json({"name": name, "key": key, "scopes": scopes, "namespaces": namespaces})
    else:
        stdout_console().print(key, soft_wrap=True)


def _print_keys(keys: list[dict[str, Any]]) -> None:
    table = new_table("name", "id", "scopes", "namespaces", "added")
    for key in keys:
        namespaces = ", ".join(key["namespaces"]) or "all"
        table.add_row(key["name"], key["id"], ", ".join(key["scopes"]), namespaces, key["added_at"])
    stdout_console().print(table)


@keys_group.command("list")
@json_option(_print_keys)
@home_option
def keys_list(home: DataDir) -> list[dict[str, Any]]:
    """List keys with their scopes and namespaces."""
    fields = ("name", "id", "scopes", "namespaces", "added_at")
    return [{name: getattr(key, name) for name in fields} for key in KeyFile(home.keys).list_keys()]


@keys_group.command("revoke")
@click.argument("name")
@json_option(lambda result: stderr_console().print(f"Revoked key {result['revoked']!r}."))
@home_option
def keys_revoke(name: str, home: DataDir) -> dict[str, str]:
    """Revoke a key."""
    KeyFile(home.keys).revoke(name)
    return {"revoked": name}
