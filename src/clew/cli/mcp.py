"""`clew mcp`: run the MCP server over stdio or HTTP."""

from __future__ import annotations

import signal
import sys

import click
import uvicorn
from mcp.server.mcpserver import MCPServer

from clew.cli.options import index_option
from clew.cli.screen import stderr_console
from clew.errors import UsageError
from clew.home import DataDir
from clew.mcp.server import create_server
from clew.serving.server import listen, listener_url

_DEFAULT_MCP_PORT = 8778
_MCP_HOST = "127.0.0.1"
_MCP_PATH = "/mcp"


@click.command("mcp")
@click.option("--http", "is_http", is_flag=True, help="Listen on a local port instead of stdin and stdout.")
@click.option(
    "--port", type=int, default=None, help=f"Port for --http; 0 picks a free one. Default: {_DEFAULT_MCP_PORT}."
)
@index_option
def mcp_command(is_http: bool, port: int | None, home: DataDir) -> None:  # noqa: FBT001
    """Run an MCP server with read-only tools for AI agents.

    Agents start it themselves; add it to their configuration:

        {"command": "clew", "args": ["mcp"]}
    """
    server = create_server(home.index)
    if is_http:
        _serve_http(server, _DEFAULT_MCP_PORT if port is None else port)
        return
    if port is not None:
        raise UsageError(f"--port {port} requires --http.", hint="Pass --http as well, or omit --port.")
    if sys.stdin.isatty():
        stderr_console().print(
            "Waiting for an MCP client on stdin (Ctrl-C stops). Agents start this command themselves."
        )
    # The SDK reads stdin in a thread that only EOF wakes, so Ctrl-C must end the process. It holds no state.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    server.run("stdio")


def _serve_http(server: MCPServer[None], port: int) -> None:
    # Stateless: calls share nothing. The SDK rejects requests with another Host header.
    app = server.streamable_http_app(streamable_http_path=_MCP_PATH, stateless_http=True, host=_MCP_HOST)
    with listen(_MCP_HOST, port) as listener:
        stderr_console().print(
            f"Serving MCP on {listener_url(listener).rstrip('/')}{_MCP_PATH} (Ctrl-C stops)", markup=False
        )
        uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listener])
