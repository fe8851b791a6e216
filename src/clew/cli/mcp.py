"""`clew mcp`: the answers for agents, over stdin and stdout or over HTTP."""

from __future__ import annotations

import signal
import sys

import click
import uvicorn
from mcp.server.mcpserver import MCPServer

from clew.cli.options import index_option
from clew.cli.screen import talk
from clew.errors import UsageError
from clew.home import Home
from clew.mcp.server import create_server
from clew.serving.server import address, listen

DEFAULT_PORT = 8778
_HOST = "127.0.0.1"
_PATH = "/mcp"


@click.command("mcp")
@click.option("--http", "is_http", is_flag=True, help="Listen on a port of this machine instead of stdin and stdout.")
@click.option("--port", type=int, default=None, help=f"Port for --http; 0 picks a free one. Default: {DEFAULT_PORT}.")
@index_option
def command(is_http: bool, port: int | None, home: Home) -> None:  # noqa: FBT001
    """Serve the answers to agents, as an MCP server with read-only tools.

    Agents start it themselves, by its settings in them:

        {"command": "clew", "args": ["mcp"]}
    """
    server = create_server(home.index)
    if is_http:
        _serve_http(server, DEFAULT_PORT if port is None else port)
        return
    if port is not None:
        raise UsageError(
            f"--port {port} says nothing without --http.", hint="Give --http as well, or leave --port out."
        )
    if sys.stdin.isatty():
        talk().print("Waiting for an agent on stdin (Ctrl-C stops). Agents start this command themselves.")
    # The SDK reads stdin on a thread that only its end wakes, so Ctrl-C must end the process itself; it holds nothing.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    server.run("stdio")


def _serve_http(server: MCPServer[None], port: int) -> None:
    # Nothing is remembered between calls, so no session is needed; the SDK refuses requests that name another host.
    app = server.streamable_http_app(streamable_http_path=_PATH, stateless_http=True, host=_HOST)
    with listen(_HOST, port) as listener:
        talk().print(f"Serving MCP on {address(listener).rstrip('/')}{_PATH} (Ctrl-C stops)", markup=False)
        uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listener])
